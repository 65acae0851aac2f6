"""Method: how to search, written as parts joined by `+`, each with its options.

mini+patches~max              an encoder, how it is searched, an option
bow+sp                        words of local features, then spatial verification

Each search word and each step is one file that declares its own options (`wherein.plugins` names the files). A method
prints as it was written; its canonical spelling leaves defaults out and is its identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, Self

from wherein import plugins
from wherein.errors import RegionError, SpecError, did_you_mean
from wherein.values.region import Grid

if TYPE_CHECKING:
    from wherein.values.query import Query

DBA: Final = "dba"
"""Database-side augmentation: every image's embedding moved towards its neighbours', before anything is asked."""
WHERE_SEARCH: Final = "static-36"
"""What a query with a place is searched with when no method is named; see docs/decisions.md for why."""
GRIDS: Final = "static-5, static-9, static-36, static-9@OVERLAP"


@dataclass(frozen=True, slots=True)
class Option:
    """A choice that a word offers, written `~VALUE` after it. The first value is the default."""

    name: str
    values: tuple[str, ...]
    models: tuple[str, ...] = ()
    """Further values name a model, written so: `onnx:FOLDER`."""

    @property
    def default(self) -> str:
        """What is chosen when nothing is said."""
        return self.values[0]

    def takes(self, value: str) -> bool:
        """Whether `~value` is one of its values."""
        return value in self.values or any(value.startswith(model.partition(":")[0] + ":") for model in self.models)


QUERY_OPTIONS: Final = (
    Option("support", ("mean", "max")),
    Option("pooling", ("summary", "gaussian")),
    Option("style", ("photos", "any-style")),
)
"""How a query is read: several examples by their mean or the best of them; an example as its encoder sums it up, or
from its patches, the middle counting most; texts as photographs unless their words say otherwise, or as images of any
style. Every encoder, kernel and search word takes them."""
WEIGHTING: Final = Option("weighting", ("alpha", "average", "ranked"))
"""How much each neighbour counts in `qe` and `dba`."""
_DBA_OPTIONS: Final = (WEIGHTING,)


class Declared(Protocol):
    """What a search word or a step says of itself, as far as a method must know it to be read."""

    @property
    def options(self) -> tuple[Option, ...]:
        """The options that may follow the word."""


class DeclaredWord(Declared, Protocol):
    """What a search word says of itself."""

    def layers(self, method: Method) -> tuple[str, ...]:
        """The layers that it searches, the one that decides which images can be found first."""


class DeclaredStep(Declared, Protocol):
    """What a step says of itself."""

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that it reads beside those that were searched."""

    def needs_local(self, method: Method) -> bool:
        """Whether it reads local features."""


@dataclass(frozen=True, slots=True)
class Words:
    """A kernel over local features: `bow`, `asmk:rootsift:upright`, `bow@65536` (a codebook of that size)."""

    kernel: str
    features: str = ""
    """The spec of the features; empty: those of the layer `local`."""
    size: int | None = None

    @classmethod
    def parse(cls, word: str) -> Self:
        """Read `KERNEL[:FEATURES][@WORDS]`."""
        rest, at, size = word.partition("@")
        kernel, _, features = rest.partition(":")
        if at and not (size.isdigit() and int(size) > 0):
            raise SpecError(f"{word!r}: {size!r} is no number of words; write {kernel}@65536.")
        return cls(kernel, features, int(size) if at else None)

    def __str__(self) -> str:
        features = f":{self.features}" if self.features else ""
        return f"{self.kernel}{features}" + ("" if self.size is None else f"@{self.size}")


@dataclass(frozen=True, slots=True)
class Method:
    """How to search: `ENCODER+SEARCH~OPTION+STEP`, every part optional."""

    written: str = field(default="", compare=False)
    encoder: str | None = None
    words: Words | None = None
    """How local features are compared; alone, or beside an encoder, to be fused."""
    search: str | None = None
    """A search word or a grid; None: `whole`, or WHERE_SEARCH where the query names a place."""
    augmented: bool = False
    """Whether the word `dba` was written."""
    steps: tuple[str, ...] = ()
    """What is done with the ranking, in order."""
    chosen: frozenset[tuple[str, str, str]] = frozenset()
    """(owner, option, value) of every option not at its default; an owner is `query`, `search`, `dba` or a step."""

    def __str__(self) -> str:
        return self.written or self.search or "whole"

    @property
    def canonical(self) -> str:
        """The one spelling of this method: parts in one order, defaults left out. It names reports and calibrations."""
        first = "" if self.encoder is None else self.encoder
        parts = [first] if first else []
        parts += [str(self.words)] if self.words is not None else []
        parts += [f"{self.search}{self._spelt('search')}"] if self.search not in (None, "whole") else []
        if self._spelt("query"):
            parts = parts or ["whole"]
            parts[-1] += self._spelt("query")
        parts += [f"{DBA}{self._spelt(DBA)}"] if self.augmented else []
        parts += [f"{step}{self._spelt(step)}" for step in self.steps]
        return "+".join(parts) or "whole"

    def _spelt(self, owner: str) -> str:
        return "".join(f"~{value}" for _, _, value in sorted(own for own in self.chosen if own[0] == owner))

    def choice(self, owner: str, option: str) -> str:
        """What is chosen of an option of `query`, `search`, `dba` or a step: what was written, or its default."""
        for one, name, value in self.chosen:
            if (one, name) == (owner, option):
                return value
        return next((own.default for own in self._options(owner) if own.name == option), "")

    def _options(self, owner: str) -> tuple[Option, ...]:
        if owner == "query":
            return QUERY_OPTIONS
        if owner == DBA:
            return _DBA_OPTIONS
        return declared_word(self.search or "whole").options if owner == "search" else declared_step(owner).options

    @property
    def grid(self) -> Grid | None:
        """The static grid that is searched, if it is one."""
        return Grid.parse(self.search) if self.search is not None and self.search.startswith("static-") else None

    @property
    def layer(self) -> str:
        """The layer that decides which images can be found."""
        return declared_word(self.search or "whole").layers(self)[0] if self.embeds else "global"

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers a collection must be indexed with to answer this method, and no more."""
        searched = declared_word(self.search or "whole").layers(self)
        if not self.embeds:
            searched = tuple(layer for layer in searched if layer == "proposals")
        read = [layer for step in self.steps for layer in declared_step(step).layers]
        local = (self.local,) if self.local is not None else ()
        return tuple(dict.fromkeys(("global", *searched, *read, *local)))

    @property
    def embeds(self) -> bool:
        """Whether an encoder takes part: always, unless local features are named and no encoder is."""
        return self.encoder is not None or self.words is None

    @property
    def local(self) -> str | None:
        """The kind of layer of local features that the method needs, if it does."""
        if self.words is not None and self.words.features:
            return f"local:{self.words.features}"
        read = any(declared_step(step).needs_local(self) for step in self.steps)
        return "local" if self.words is not None or read else None

    def with_step(self, word: str) -> Self:
        """With one more step, done last; unchanged where it is done already."""
        if word in self.steps:
            return self
        return replace(self, steps=(*self.steps, word), written=f"{self}+{word}")

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Read a spec; an unknown part is answered with the known ones."""
        method = cls(written=spec)
        for word in spec.split("+") if spec else []:
            name, *options = word.split("~")
            method, owners = method._with(name)
            for option in options:
                method = method._choosing(name, owners, option)
        return method

    def _with(self, name: str) -> tuple[Self, tuple[str, ...]]:
        """With one more part, and whose options may follow it."""
        if word_key(name) is not None:
            read = str(_grid(name, self.written)) if name.startswith("static-") else name
            return self._one("search", read), ("search", "query")
        if name == DBA:
            return replace(self, augmented=True), (DBA,)
        if plugins.is_known("steps", name.partition(":")[0]):
            if name in self.steps:
                raise SpecError(f"method {self.written!r}: names the step {name} twice; once is enough.")
            _require_model(name, self.written)
            return replace(self, steps=(*self.steps, name)), (name,)
        if plugins.is_known("kernels", re.split("[:@]", name)[0]):
            return self._one("words", Words.parse(name)), ("query",)
        if plugins.is_known("encoders", name.partition(":")[0]):
            return self._one("encoder", name), ("query",)
        raise SpecError(f"method {self.written!r}: nothing is called {name!r}. {_known()}{_nearest(name)}")

    def _one(self, what: str, value: str | Words) -> Self:
        """With its encoder, search or words, of which a method has one each."""
        if getattr(self, what) is not None:
            kinds = {"search": "searches", "words": "kernels of local features", "encoder": "encoders"}
            raise SpecError(f"method {self.written!r}: names two {kinds[what]}; name one.")
        return replace(self, **{what: value})  # type: ignore[arg-type]

    def _choosing(self, name: str, owners: tuple[str, ...], value: str) -> Self:
        """With `~value` after a part; refused where that part offers no such thing."""
        offered = [(owner, option) for owner in owners for option in self._options(owner)]
        for owner, option in offered:
            if option.takes(value):
                rest = {own for own in self.chosen if own[:2] != (owner, option.name)}
                told = set() if value == option.default else {(owner, option.name, value)}
                return replace(self, chosen=frozenset(rest | told))
        known = ", ".join(f"~{value}" for _, option in offered for value in _spellings(option)) or "none"
        close = did_you_mean(value, [own for _, option in offered for own in option.values])
        raise SpecError(f"method {self.written!r}: {name} has no option ~{value}; its options: {known}.{close}")

    def for_query(self, query: Query) -> Self:
        """With the search word filled in: a place in the query, and no method named, means a grid."""
        if self.search is not None:
            return self
        placed = not self.written and any(part.where is not None for part in query.parts)
        if not placed:
            return replace(self, search="whole")
        return replace(self, search=WHERE_SEARCH, written=WHERE_SEARCH)


def word_key(name: str) -> str | None:
    """The name under which a search word is registered: `static` for `static-9`; None for what is no search word."""
    stem = name.partition("-")[0]
    if stem == "static":
        return stem if "-" in name else None
    return name if plugins.is_known("words", name) else None


def declared_word(name: str) -> DeclaredWord:
    """The search word of a name."""
    word: DeclaredWord = plugins.load("words", word_key(name) or name)
    return word


def declared_step(name: str) -> DeclaredStep:
    """The step of a name; one that looks with a model is made for the model after its colon: `ground:hf:NAME`."""
    word, colon, model = name.partition(":")
    found = plugins.load("steps", word)
    step: DeclaredStep = found(model) if colon else found
    return step


def _require_model(name: str, spec: str) -> None:
    """Refuse a step that needs a model and names none, or the other way round."""
    word, colon, _ = name.partition(":")
    needs = isinstance(plugins.load("steps", word), type)  # a class is made for a model, an object is not
    if bool(colon) != needs:
        how = f"write {word}:hf:MODEL" if needs else f"write {word} alone"
        raise SpecError(f"method {spec!r}: {name!r} cannot be done; {how}.")


def search_words() -> list[str]:
    """The search words that are written as they are; grids are written `static-9`."""
    return [name for name in plugins.table("words") if name != "static"]


def _spellings(option: Option) -> Iterator[str]:
    yield from option.values
    yield from option.models


def _nearest(name: str) -> str:
    tables = [name for kind in ("steps", "kernels", "encoders") for name in plugins.table(kind)]
    known = [*search_words(), "static-9", "static-36", DBA, *tables]
    return did_you_mean(name, known)


def _known() -> str:
    encoders, kernels = ", ".join(sorted(plugins.table("encoders"))), ", ".join(plugins.table("kernels"))
    words, steps = ", ".join(search_words()), ", ".join((DBA, *plugins.table("steps")))
    return f"Encoders: {encoders}. Local: {kernels}. Searches: {words}, {GRIDS}. Steps: {steps}."


def _grid(word: str, spec: str) -> Grid:
    try:
        return Grid.parse(word)
    except RegionError as error:
        raise SpecError(f"method {spec!r}: {error}") from error
