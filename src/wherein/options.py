"""How a search is asked, the same in every door: how many hits, by which method, among which images.

Every option is checked here, once: one of the wrong kind is refused with its name, its value and what is wanted.
"""

from __future__ import annotations

import inspect
import logging
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from inspect import Parameter, signature
from typing import Annotated, Any, Final, Self, TypedDict, TypeVar, get_type_hints

from wherein import plugins
from wherein.errors import InputError, did_you_mean
from wherein.images.image import ImageLike
from wherein.plugins import AUTO
from wherein.values.method import Method
from wherein.values.query import Part, Query
from wherein.values.records import Filter, stamp

_LOG: Final = logging.getLogger("wherein.search")
DEFAULT_K: Final = 20
"""Hits of a search that names no number: a screenful."""
DEFAULT_CUT: Final = 0.5
"""Hits that are less likely right than wrong are shown apart, and rejected where a decision is asked for."""
Askable = Query | Part | ImageLike | Sequence[Any]
"""What can be searched for: a str is a text; a Path, bytes, array or PIL image is an example; or several of those."""
Function = TypeVar("Function", bound=Callable[..., Any])
Day = date | str | int
"""A date, or 2024-05-01, 2024-05 or 2024 as it is written; a year may be a number."""


class Filters(TypedDict, total=False):
    """Which images may be returned; they apply before ranking, so that k come back where k pass."""

    folder: Annotated[
        str | os.PathLike[str] | None,
        "only images below this folder, by its name in the collection or its path; a glob where no folder is called so",
    ]
    after: Annotated[Day | None, "only images taken on this day or later: a date, '2024-05-01', '2024-05' or '2024'"]
    before: Annotated[Day | None, "only images taken before this day"]
    tags: Annotated[Sequence[str] | str, "only images that bear all of these tags"]
    min_side: Annotated[int, "the fewest pixels the longer side may have"]


class Options(Filters, total=False):
    """How to search: the options of `search` in every door."""

    k: Annotated[int, "how many hits"]
    method: Annotated[str | Method, "how to search: 'whole', 'patches', 'mini+static-9', …; docs/search.md lists them"]
    among: Annotated[Sequence[str] | str | None, "only these image_ids"]
    locate: Annotated[bool, "give every hit the mask and the box of what matched"]
    frames: Annotated[bool, "every image of a video as a hit of its own; else the best stands for its clip"]
    index: Annotated[
        str, "the index that is asked: 'exact', 'compressed', or what a plug-in registers; 'auto' is what is kept"
    ]
    min_confidence: Annotated[
        float | None, "reject hits less likely to be right than this, from 0 to 1; the ranking keeps them apart"
    ]
    precision: Annotated[float | None, "keep as many hits as possible while this share of them is right: 0.9"]
    false_alarms: Annotated[float | None, "keep hits while at most so many of them are expected to be wrong: 1"]
    decide: Annotated[bool, "reject hits that are less likely right than wrong"]
    all: Annotated[bool, "as many hits as images are expected to be right, whatever k is"]


_DEFAULTS: Final[Mapping[str, object]] = {
    "k": DEFAULT_K,
    "method": "",
    "tags": (),
    "min_side": 0,
    "locate": False,
    "frames": False,
    "decide": False,
    "all": False,
    "index": AUTO,
}
"""What an option is unless it is given; None for those that are not named."""


def lists_options(kind: type[Filters]) -> Callable[[Function], Function]:
    """Let `help()` of a function that takes `**options` list each of them, with its default and its meaning."""
    hints = get_type_hints(kind, include_extras=True)

    def documented(function: Function) -> Function:
        own = [one for one in signature(function).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        plain = {name: hint.__origin__ for name, hint in hints.items()}
        more = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=plain[name])
            for name in hints
        ]
        lines = [f"{name} ({_DEFAULTS.get(name)!r}): {hint.__metadata__[0]}." for name, hint in hints.items()]
        function.__signature__ = signature(function).replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        function.__doc__ = f"{inspect.getdoc(function)}\n\nOptions, each with its default:\n" + "\n".join(lines)
        return function

    return documented


@dataclass(frozen=True, slots=True)
class Cut:
    """How sure a hit must be: by its own confidence, or by what the hits are together. One of them is given."""

    least: float = DEFAULT_CUT
    precision: float | None = None
    false_alarms: float | None = None
    decides: bool = False
    """Whether hits below are rejected; else they are only shown apart."""

    @classmethod
    def of(cls, options: Options) -> Self:
        """From what a caller gave; two rules at once are refused."""
        given = {name: options.get(name) for name in ("min_confidence", "precision", "false_alarms")}
        named = [name for name, value in given.items() if value is not None]
        decide = flag("decide", options.get("decide", False))
        if len(named) > 1:
            raise InputError(f"{' and '.join(named)}: give one of them; each says by itself which hits are kept.")
        least, alarms = given["min_confidence"], given["false_alarms"]
        return cls(
            DEFAULT_CUT if least is None else _fraction("min_confidence", least),
            None if given["precision"] is None else _fraction("precision", given["precision"]),
            None if alarms is None else _at_least_zero("false_alarms", alarms),
            decide or bool(named),
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """A search whose query and options were checked."""

    query: Query
    method: Method
    k: int
    filter: Filter
    among: tuple[str, ...] | None
    cut: Cut = Cut()
    all: bool = False
    """Whether as many hits are wanted as images are expected to be right."""
    frames: bool = False
    """Whether every image of a video is a hit of its own."""
    index: str = AUTO
    """The index that is asked."""

    @classmethod
    def of(cls, query: Askable, options: Options) -> Self:
        """The checked request of a query and the options that a caller gave with it."""
        require_known(options, Options.__optional_keys__)
        among = options.get("among")
        k = whole_number("k", options.get("k", DEFAULT_K), least=1)
        located = flag("locate", options.get("locate", False))
        filter_ = filter_of(options)
        chosen = None if among is None else several("among", among)
        asked, how = Query.of(query), options.get("method", "")
        if not isinstance(how, str | Method):
            raise _refused("method", how, "a text such as 'whole' or 'patches', or a Method")
        method = (how if isinstance(how, Method) else Method.parse(how)).for_query(asked)
        _LOG.info("%s by %s, the best %d", asked, method, k)
        return cls(
            query=asked,
            method=method.with_step("locate") if located else method,
            k=k,
            filter=filter_,
            among=chosen,
            cut=Cut.of(options),
            all=flag("all", options.get("all", False)),
            frames=flag("frames", options.get("frames", False)),
            index=_index(options.get("index", AUTO)),
        )


def _index(name: object) -> str:
    """The name of an index, known or refused."""
    if not isinstance(name, str):
        raise _refused("index", name, "the name of an index, such as 'exact'")
    if name != AUTO:
        plugins.load("indexes", name.partition(":")[0])
    return name


def require_known(given: Mapping[str, object], known: Set[str]) -> None:
    """Refuse an option that does not exist, rather than search without it."""
    for name in sorted(given.keys() - known):
        raise InputError(f"{name}: no such option; known: {', '.join(sorted(known))}.{did_you_mean(name, known)}")


def several(name: str, items: Iterable[str]) -> tuple[str, ...]:
    """Tags or image_ids; a single one may be given as it is."""
    if isinstance(items, str):
        return (items,)
    if not isinstance(items, Iterable) or isinstance(items, bytes | Mapping):
        raise _refused(name, items, "a text, or a list of texts")
    found = tuple(items)
    for item in found:
        if not isinstance(item, str):
            raise _refused(name, item, "a text each")
    return found


def image_ids_of(given: str | Iterable[str | Iterable[str]]) -> tuple[str, ...]:
    """The image_ids that were given: a single one, several, or lists of them."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return several("image_ids", given)
    return tuple(one for each in given for one in several("image_ids", each))


def require_tag(tag: object) -> None:
    """Refuse what can be no tag: an empty one, or a list of image_ids in its place."""
    if not isinstance(tag, str) or not tag.strip():
        raise _refused("tag", tag, "its name as a text, and the image_ids after it")


def whole_number(name: str, value: Any, *, least: int) -> int:
    """A whole number of at least `least`, also one of NumPy's; True and "5" are none."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise _refused(name, value, "a whole number")
    if number < least:
        raise _refused(name, value, f"at least {least}")
    return number


def only_filters(filters: Filters) -> Filter:
    """The filter that was asked for, where nothing else may be."""
    require_known(filters, Filters.__optional_keys__)
    return filter_of(filters)


def filter_of(filters: Filters) -> Filter:
    """The filter that was asked for."""
    folder = filters.get("folder")
    if not isinstance(folder, str | os.PathLike | None):
        raise _refused("folder", folder, "the name or the path of a folder")
    return Filter(
        None if folder is None else os.fspath(folder),
        stamp(filters.get("after"), option="after"),
        stamp(filters.get("before"), option="before"),
        several("tags", filters.get("tags", ())),
        whole_number("min_side", filters.get("min_side", 0), least=0),
    )


def _fraction(name: str, value: Any) -> float:
    try:
        number = None if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or not 0.0 <= number <= 1.0:
        raise _refused(name, value, "a number between 0 and 1")
    return number


def _at_least_zero(name: str, value: Any) -> float:
    try:
        number = None if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or not 0.0 <= number < float("inf"):
        raise _refused(name, value, "a number of at least 0")
    return number


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that only resembles them."""
    if not isinstance(value, bool):
        raise _refused(name, value, "True or False")
    return value


def _refused(name: str, value: object, wanted: str) -> InputError:
    return InputError(f"{name} = {value!r}: give {wanted}.")
