"""How a search is asked, the same in every door: how many hits, by which method, among which images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Self, TypedDict

from wherein.errors import InputError
from wherein.images.image import ImageLike
from wherein.search.method import Method
from wherein.values.query import Part, Query
from wherein.values.records import Filter, stamp

DEFAULT_K: Final = 20
Askable = Query | Part | ImageLike | Sequence[Any]
"""What can be searched for: a str is a text; a Path, bytes, array or PIL image is an example; or several of those."""


class Filters(TypedDict, total=False):
    """Which images may be returned; they apply before ranking, so that k come back where k pass."""

    folder: str | None
    """A glob: `holiday` and `holiday/*` both mean everything below holiday."""
    after: date | str | None
    before: date | str | None
    """Dates, as such or as 2024-05-01."""
    tags: Sequence[str] | str
    min_side: int
    """The fewest pixels the longer side may have."""


class Options(Filters, total=False):
    """How to search."""

    k: int
    """How many hits; 20 unless given."""
    method: str | Method
    among: Sequence[str] | str | None
    """Only these image_ids."""
    locate: bool
    """Give every hit the mask and the box of what matched, as the step `locate` of a method does."""
    min_confidence: float | None
    """Reject hits that are less likely to be right than this; the ranking keeps them apart."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A search, checked."""

    query: Query
    method: Method
    k: int
    filter: Filter
    among: tuple[str, ...] | None
    min_confidence: float | None

    @classmethod
    def of(cls, query: Askable, options: Options) -> Self:
        """From what a caller gave."""
        require_known(options, Options.__optional_keys__)
        k, least, among = options.get("k", DEFAULT_K), options.get("min_confidence"), options.get("among")
        if k < 1:
            raise InputError(f"k = {k}: ask for at least one hit.")
        if least is not None and not 0.0 <= least <= 1.0:
            raise InputError(f"min_confidence = {least}: a confidence lies between 0 and 1.")
        asked, how = Query.of(query), options.get("method", "")
        method = (how if isinstance(how, Method) else Method.parse(how)).for_query(asked)
        return cls(
            query=asked,
            method=method.with_step("locate") if options.get("locate") else method,
            k=k,
            filter=filter_of(options),
            among=None if among is None else several(among),
            min_confidence=least,
        )


def require_known(given: Mapping[str, object], known: Set[str]) -> None:
    """Refuse an option that does not exist, rather than search without it."""
    for name in sorted(given.keys() - known):
        raise InputError(f"{name}: no such option; known: {', '.join(sorted(known))}.")


def several(items: Iterable[str]) -> tuple[str, ...]:
    """Tags or image_ids; a single one may be given as it is."""
    return (items,) if isinstance(items, str) else tuple(items)


def filter_of(filters: Filters) -> Filter:
    """The filter that was asked for."""
    return Filter(
        filters.get("folder"),
        stamp(filters.get("after")),
        stamp(filters.get("before")),
        several(filters.get("tags", ())),
        filters.get("min_side", 0),
    )
