"""Which kinds of layers a collection keeps, what they hold and lack. It remembers what it was indexed with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from wherein.errors import InputError, MissingExtra, did_you_mean
from wherein.index.codes import CodeFiles, codes_folder
from wherein.layers import DEFAULT_KINDS, open_kind
from wherein.store.manifest import Layer, Manifest
from wherein.store.store import Store
from wherein.values.records import LayerInfo


def kinds_to_keep(manifest: Manifest, *, encoder: str, asked: Sequence[str] | str | None) -> tuple[str, ...]:
    """What is filled by an encoder: the kinds kept of it, local features and thumbs, and what is asked for.

    A new collection keeps what is asked for, or DEFAULT_KINDS; a new encoder what the one it may replace has. The
    layer `global` is always kept: it says which images an encoder has described.
    """
    kept = [*_kinds_of(manifest, encoder)]
    if asked is None:
        kept = kept or _kinds_of(manifest, manifest.encoder) or [*DEFAULT_KINDS]
    shared = [layer.kind for layer in manifest.layers.values() if _is_shared(layer.kind)]
    more = () if asked is None else (asked,) if isinstance(asked, str) else tuple(asked)
    check_kinds(more)
    return tuple(dict.fromkeys(["global", *kept, *shared, *more]))


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse kinds that no collection can have, or that cannot be filled on this machine."""
    for kind in kinds:
        open_kind(kind).check()


def fillable(
    kinds: Sequence[str], *, asked: Sequence[str] | str | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds that can be filled here, and a sentence on each that is kept and cannot, for want of a package.

    One that is asked for must be fillable: it is refused before anything is touched.
    """
    wanted = (asked,) if isinstance(asked, str) else tuple(asked or ())
    said = dict[str, str]()
    for kind in kinds:
        try:
            open_kind(kind).check()
        except (MissingExtra, InputError) as error:
            if kind in wanted:
                raise
            way_out = f"Install it, or give the layer up with `wherein index --drop-layer {kind}`."
            said[kind] = f"layer {kind} was not filled: {error} {way_out}"
    return tuple(kind for kind in kinds if kind not in said), tuple(said.values())


def layer_named(manifest: Manifest, name: str) -> Layer:
    """The layer of a kind, or of a full name; one that searches cannot do without is refused."""
    layers = manifest.layers.values()
    found = [layer for layer in layers if layer.name == name] or [layer for layer in layers if layer.kind == name]
    if not found:
        known = list(dict.fromkeys(layer.kind for layer in layers))
        raise InputError(f"no layer is called {name!r}; there are {', '.join(known)}.{did_you_mean(name, known)}")
    if len(found) > 1:
        raise InputError(f"{name} names several layers: say which, {' or '.join(layer.name for layer in found)}.")
    (layer,) = found
    others = [one.kind for one in layers if (one.spec, one.digest) == (layer.spec, layer.digest) and one != layer]
    if layer.kind == "global" and (layer.spec == manifest.encoder or others):
        first = (
            "it serves searches" if layer.spec == manifest.encoder else f"drop its others first: {', '.join(others)}"
        )
        raise InputError(f"the layer global of {layer.spec} cannot be dropped: {first}.")
    return layer


def describe_layers(store: Store) -> tuple[LayerInfo, ...]:
    """What each layer holds."""
    sizes, rows = Counter[str](), Counter[str]()
    for _, name, written in store.catalogue.shards():
        sizes[name] += written.bytes
        rows[name] += written.rows
    return tuple(
        LayerInfo(layer.kind, layer.spec, covered, sizes[name] / max(rows[name], 1) * per_image, *_indexed(store, name))
        for name, layer in store.manifest.layers.items()
        for covered in [store.catalogue.covered(name)]
        for per_image in [store.catalogue.rows_of(name) / max(covered, 1)]
    )


def _indexed(store: Store, layer: str) -> tuple[str, float | None]:
    """How the rows of a layer are searched, and the recall that was measured."""
    kept = CodeFiles(codes_folder(store.derived.folder, layer)).tuning()
    return ("exact", None) if kept is None else (f"compressed:{kept[1]}", kept[0].recall)


def shortfalls(covered: Mapping[str, int], *, living: int, mend: str) -> tuple[str, ...]:
    """What a person should know of layers that lack some of the living images; the command `mend` completes them."""
    return tuple(
        f"{layer} covers {images:,} of {living:,} images: run {mend} to complete it."
        for layer, images in covered.items()
        if images < living
    )


def _kinds_of(manifest: Manifest, encoder: str) -> list[str]:
    """The kinds that are kept of an encoder, whatever its weights were."""
    layers = manifest.layers.values()
    return list(dict.fromkeys(one.kind for one in layers if one.spec == encoder and not _is_shared(one.kind)))


def _is_shared(kind: str) -> bool:
    """Whether a layer is made without the encoder. One of a package that is gone counts too, so that it is reported."""
    try:
        return not open_kind(kind).needs_encoder
    except InputError:
        return True
