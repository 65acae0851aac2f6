"""Where in an image: a query and an image → heatmap, mask, box.

Images of a collection are not decoded again: their stored grids are matched and their thumbs give the edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import cv2
import numpy as np

from wherein.arrays import Floats, Mask, unit
from wherein.encoders import Encoder, load
from wherein.errors import ImageError, InputError
from wherein.features import FeatureFamily, load_features
from wherein.images.image import Image, ImageLike, Pixels, decode
from wherein.images.isolated import decode_given
from wherein.images.thumbnail import as_small, thumbnail
from wherein.layers import detail
from wherein.layers.local import DEFAULT_FEATURES
from wherein.limits import checkpoint
from wherein.localizers import (
    KEYPOINTS,
    Example,
    Heatmap,
    Keyed,
    Located,
    Scene,
    Sought,
    load_localizer,
)
from wherein.localizers.colours import Colours
from wherein.localizers.edges import enlarged, outlined
from wherein.localizers.similar import seen_again
from wherein.search.engine import Candidate, Context, notes
from wherein.search.local import query_features
from wherein.search.reading import read_query
from wherein.search.unknown import unknown_words
from wherein.search.views import View
from wherein.values.masks import box_mask, check_aspect, to_polygons
from wherein.values.method import Method
from wherein.values.models import is_model, reads_image
from wherein.values.query import Part, Query
from wherein.values.region import Box

ZOOM: Final = 2.5
"""A region is looked at a second time in a square this many times its size, since hits may show it larger."""
LEAST_LIKE: Final = 0.4
"""The cosine with an example that the outlined region has at least, or the example is not there: on `masks` and on
other photos of the same objects all have 0.41 and more, of other pictures three quarters have less than 0.4."""
COMMON_THINGS: Final = (
    *("a person", "a face", "a cat", "a dog", "a horse", "a bird", "a fish", "an insect", "a flower", "a tree"),
    *("grass", "a mountain", "the sea", "the sky", "a road", "a car", "a train", "an airplane", "a boat", "a bicycle"),
    *("a house", "a room", "a window", "a wall", "a chair", "a table", "a cup", "a plate of food", "fruit", "a bottle"),
    *("a book", "a screen", "a phone", "a clock", "a toy", "clothes", "shoes", "a bag", "a tool", "a machine"),
    *("a sign", "text", "a drawing", "a logo", "a pattern", "stones", "sand", "snow", "fire", "stars"),
)
"""Fifty things that photographs show, of every kind: what words are weighed against where there is no collection."""
RIVALS: Final = 3
"""How many common things may name a region better than the words that are found there: fewer than one in ten.

Chosen on the demonstration's photographs, as `test_words_are_found_only_where_they_are_shown` checks.
"""
_EQUAL: Final = 1e-6
"""Cosines that differ less are the same: a common thing does not rival itself."""
_FINE: Final = 512
"""Pixels a side at which a box becomes a mask: finer than any map of patches."""
_NOWHERE: Final = (1, 1)
"""The shape of a heatmap that says nothing."""
_OUTSIDE: Final = 0.25
"""What heat outside the place that was asked for is worth. Chosen by hand."""


def locate(
    query: Query | Part | ImageLike | Sequence[Any],
    image: ImageLike,
    *,
    encoder: str | Encoder = "mini",
    localizer: str = "auto",
    refine: bool = True,
) -> Located:
    """Where `image` shows what is asked for, without any collection. A str query is a text, a Path an example."""
    model = load(encoder) if isinstance(encoder, str) else encoder
    family = load_features(DEFAULT_FEATURES) if localizer in KEYPOINTS else None
    asked = Query.of(query)
    read, told = read_query(asked, model)
    unknown = unknown_words(read, model)
    said = (*notes(asked, Method()), *told, *([unknown.sentence] if unknown.words else []))
    if not is_model(localizer) and unknown.all_words:
        return Located(np.zeros(_NOWHERE, np.float32), notes=said)
    whole = family is not None or is_model(localizer)
    scene = scene_of(decode_given(image, at_least=None if whole else detail(model)), model, family)
    if scene.patches is None and scene.dense is None and family is None and not reads_image(localizer):
        raise InputError(f"{model.spec} has no patch embeddings, so it cannot say where: use mini.")
    sought = sought_of(asked, model, family)
    found = locate_in(scene, sought, where=places(asked), localizer=localizer, refine=refine)
    by_words = not is_model(localizer) and all(part.image is None for part in asked.parts if not part.negative)
    if by_words and found.mask is not None and not _is_named_by(scene, sought, found.mask, model):
        return replace(found, mask=None, box=None, notes=said)
    return replace(found, notes=said)


def _is_named_by(scene: Scene, sought: Sought, mask: Mask, encoder: Encoder) -> bool:
    """Whether the words name a region better than most common things do, and than half of them name the whole image.

    Somewhere every image is most like any words; whether it shows them is said by what else would name it as well.
    """
    if scene.patches is None:
        return True
    common = _compact(encoder.texts(COMMON_THINGS), encoder)
    seen, all_of_it = (
        _pooled(scene.patches, _cover(region, scene.patches.shape)) for region in (mask, np.ones_like(mask))
    )
    named = float((sought.vectors @ seen).max())
    rivals = int((common @ seen > named + _EQUAL).sum())
    return rivals <= RIVALS and named + _EQUAL >= float(np.median(common @ all_of_it))


def locate_in(
    scene: Scene, sought: Sought, *, where: Sequence[Box] = (), localizer: str = "auto", refine: bool = True
) -> Located:
    """Where a scene shows what is sought; `where` says at which places it was asked for."""
    heat = heatmap(scene, sought, localizer=localizer)
    if where:
        heat = heat * _near(where, heat.shape)
    found = outlined(heat, scene, refine=refine, colours=sought.colours if localizer == "auto" else None)
    if found.mask is None:
        return found
    score = region_score(scene, sought, found.mask)
    examples_alone = bool(sought.patches or sought.dense) and not sought.texts
    if localizer == "auto" and examples_alone and scene.patches is not None and score < LEAST_LIKE:
        return Located(found.heatmap)  # the best place there is does not show it
    return replace(found, score=score)


def heatmap(scene: Scene, sought: Sought, *, localizer: str = "auto") -> Heatmap:
    """Heat by a localizer; `auto` takes `match` for regions of examples, and `support` for texts and whole examples.

    With `auto`, regions and texts together get the mean of `match` and `similar`, and the picture of a whole example,
    seen again, is outlined whole.
    """
    if localizer != "auto":
        return load_localizer(localizer)(sought, scene)
    matched = [example for example in (*sought.patches, *sought.dense) if not example.whole]
    if not matched and not sought.texts:
        again = seen_again(sought, scene)
        if again is not None:
            return again
        if scene.patches is not None and len(sought.vectors):
            sought = replace(sought, patches=(), dense=(), not_patches=(), not_dense=())
    word = "similar" if matched else "support"
    compared = load_localizer(word)(sought, scene) if sought.texts or not matched else None
    if not matched:
        return compared if compared is not None else np.zeros((1, 1), np.float32)
    heat = load_localizer("match")(sought, scene)
    if compared is None:
        return heat
    return np.asarray((heat + enlarged(compared, size_wh=(heat.shape[1], heat.shape[0]))) / 2, np.float32)


def region_score(scene: Scene, sought: Sought, mask: Mask) -> float:
    """How well the masked region answers: the highest cosine of its mean patch with what is sought."""
    if scene.patches is None or not len(sought.vectors):
        return 0.0
    return float((sought.vectors @ _pooled(scene.patches, _cover(mask, scene.patches.shape))).max())


def places(query: Query) -> tuple[Box, ...]:
    """Where a query's object was asked to be; nothing where any positive part may be anywhere."""
    boxes = [part.where for part in query.parts if not part.negative]
    return () if None in boxes else tuple(box for box in boxes if box is not None)


# what is sought


def sought_of(query: Query, encoder: Encoder, family: FeatureFamily | None = None) -> Sought:
    """A query's embeddings, the grids of its examples and, with a family of local features, their keypoints."""
    query, _ = read_query(query, encoder)
    wanted = [part for part in query.parts if not part.negative]
    avoided = [part for part in query.parts if part.negative]
    vectors, patches, dense, pictures = _embedded(wanted, encoder)
    not_vectors, not_patches, not_dense, _ = _embedded(avoided, encoder)
    return Sought(
        vectors=vectors,
        avoided=not_vectors,
        patches=patches,
        dense=dense,
        not_patches=not_patches,
        not_dense=not_dense,
        texts=any(part.text is not None for part in wanted),
        words=tuple(part.text for part in wanted if part.text is not None),
        examples=lambda: [_shown(part) for part in wanted if part.image is not None],
        keyed=() if family is None else _keyed(query, family),
        colours=Colours.of(pictures) if pictures else None,
    )


def _shown(part: Part) -> Image:
    """An example's own pixels, its region where it has one."""
    if part.image is None:
        raise TypeError("the part is a text")
    image = decode_given(part.image)
    return image if part.region is None else image.crop(part.region)


def _keyed(query: Query, family: FeatureFamily) -> tuple[Keyed, ...]:
    return tuple(Keyed(found, _outline(part)) for part, found in query_features(query, family) if not part.negative)


def _outline(part: Part) -> tuple[Floats, ...] | None:
    """The outline of a part's mask in the frame of its region."""
    mask, region = part.pixels(), part.region
    if mask is None or region is None:
        return None
    x1, y1, x2, y2 = region.pixels((mask.shape[1], mask.shape[0]))
    shape = np.array([x2 - x1, y2 - y1], np.float32)
    return tuple(np.asarray(polygon, np.float32) / shape for polygon in to_polygons(mask[y1:y2, x1:x2]))


def _embedded(
    parts: Sequence[Part], encoder: Encoder
) -> tuple[Floats, tuple[Example, ...], tuple[Example, ...], list[tuple[Pixels, Mask]]]:
    """(m, c) vectors, the parts' examples on both grids, and small pictures of those of which a region is meant."""
    texts = [part.text for part in parts if part.text is not None]
    vectors = [_compact(encoder.texts(texts), encoder)] if texts else []
    patches, dense, pictures = list[Example](), list[Example](), list[tuple[Pixels, Mask]]()
    for part in parts:
        if part.image is None:
            continue
        views = _views(part, decode_given(part.image))
        if part.region is not None:
            pictures.append((as_small(views[0][0]), views[0][1]))
        encoded = encoder.images(np.stack([encoder.prepare(image) for image, _ in views]))
        for number, (_, mask) in enumerate(views):
            if encoded.patches is not None:
                grid = _compact(encoded.patches[number], encoder)
                patches.append(Example(grid, _cover(mask, grid.shape)))
                vectors.append(_pooled(patches[-1].grid, patches[-1].cover)[None])
            if encoded.dense is not None:
                grid = encoded.dense[number]
                dense.append(Example(grid, _cover(mask, grid.shape)))
    nothing = _compact(np.zeros((0, encoder.dim), np.float32), encoder)
    return np.concatenate([nothing, *vectors]), tuple(patches), tuple(dense), pictures


def _views(part: Part, image: Image) -> list[tuple[Image, Mask]]:
    """The example, and its region from nearer; each with the pixels that are meant."""
    mask, region = part.pixels(), part.region
    if mask is not None:
        check_aspect(mask, size_wh=image.full_wh)
    if region is None:
        return [(image, np.ones((1, 1), np.bool_))]
    meant = box_mask(region, size_wh=(_FINE, _FINE)) if mask is None else mask
    views = [(image, meant)]
    side = ZOOM * max(region.x2 - region.x1, region.y2 - region.y1)
    if side < 0.9:
        left = min(max((region.x1 + region.x2 - side) / 2, 0.0), 1.0 - side)
        top = min(max((region.y1 + region.y2 - side) / 2, 0.0), 1.0 - side)
        near = Box(left, top, min(1.0, left + side), min(1.0, top + side))
        x1, y1, x2, y2 = near.pixels((meant.shape[1], meant.shape[0]))
        views.append((image.crop(near), meant[y1:y2, x1:x2]))
    return views


def _compact(vectors: Floats, encoder: Encoder) -> Floats:
    return vectors if encoder.patch_basis is None else np.asarray(vectors @ encoder.patch_basis, np.float32)


def _pooled(grid: Floats, cover: Floats) -> Floats:
    """(c,) the mean of a grid's patches, each as much as it is covered."""
    return unit((grid * cover[..., None]).sum(axis=(0, 1)))


def _cover(mask: Mask, shape: Sequence[int]) -> Floats:
    """(gh, gw): which share of each patch is inside a mask, from 0 to 1."""
    return np.asarray(cv2.resize(mask.astype(np.float32), (shape[1], shape[0]), interpolation=cv2.INTER_AREA))


def _near(where: Sequence[Box], shape: Sequence[int]) -> Floats:
    inside = np.any([box_mask(box, size_wh=(_FINE, _FINE)) for box in where], axis=0)
    return np.asarray(_OUTSIDE + (1.0 - _OUTSIDE) * _cover(inside, shape), np.float32)


# what is searched


def scene_of(image: Image, encoder: Encoder, family: FeatureFamily | None = None) -> Scene:
    """What a collection would keep of an image."""
    encoded = encoder.images(encoder.prepare(image)[None])
    return Scene(
        size_wh=image.full_wh,
        patches=None if encoded.patches is None else _compact(encoded.patches[0], encoder),
        dense=None if encoded.dense is None else encoded.dense[0],
        thumb=_pixels(thumbnail(image)),
        features=None if family is None else family.features(image, side=family.side),
        file=lambda: image,
    )


def stored_scene(view: View, image: int, encoder: Encoder, *, keyed: bool = False) -> Scene:
    """What the collection keeps of image number `image` of a view; with `keyed`, its local features too."""
    thumb = view.thumb(image)
    return Scene(
        size_wh=view.store.catalogue.describe(int(view.images[image]))[0].size_wh,
        patches=view.grid(image, kind="patches", encoder=encoder),
        dense=view.grid(image, kind="dense", encoder=encoder),
        thumb=None if thumb is None else _pixels(thumb),
        features=view.local.features(image) if keyed and view.local is not None else None,
        file=lambda: _opened(view, image),
    )


def _opened(view: View, image: int) -> Image | None:
    """Image number `image` of a view, decoded from its file; None where that cannot be read."""
    file = view.store.original(int(view.images[image]))
    try:
        return None if file is None else decode_given(file.read(), name=str(file.path))
    except ImageError:
        return None


def _pixels(jpeg: bytes) -> Pixels:
    return decode(jpeg).pixels


# candidates of a ranking


def asked_of(context: Context, step: str) -> Sought:
    """What a step looks for in each candidate."""
    local = context.view.local
    keyed = context.method.choice(step, "localizer") in KEYPOINTS and local is not None
    return sought_of(context.query, context.encoder, local.family if keyed and local is not None else None)


def located(one: Candidate, context: Context, sought: Sought, step: str) -> tuple[Candidate, float]:
    """A candidate with its mask and box, and the score of that region. What `sp` verified is not looked for again."""
    checkpoint()
    method, where = context.method, places(context.query)
    localizer = method.choice(step, "localizer")
    verified = localizer == "auto" and one.inliers is not None
    if verified and not one.inliers and not method.embeds:
        return one, 0.0  # local features alone were asked, and they found nothing in it
    scene = stored_scene(context.view, one.image, context.encoder, keyed=bool(sought.keyed))
    if verified and one.inliers and one.mask is not None:
        return one, region_score(scene, sought, one.mask)
    if scene.patches is None and scene.dense is None and not sought.keyed and not reads_image(localizer):
        raise InputError(
            f"{context.view.store.folder}: keeps no patches of {context.encoder.spec}, so hits cannot be located. "
            f"Add them with `wherein index --encoder {context.encoder.spec} --layers global,thumbs,patches`."
        )
    found = locate_in(
        scene, sought, where=where, localizer=localizer, refine=method.choice(step, "outline") == "refined"
    )
    if found.mask is None:
        return one, 0.0
    return replace(one, mask=found.mask, box=found.box), found.score
