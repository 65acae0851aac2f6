"""Looking after a collection: what it holds and costs, whether it is intact, forgetting images, freeing space."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from wherein.collection import Collection
from wherein.server.routes import LibraryHere, ServedHere
from wherein.server.shapes import ImageIds, Sent, Shape

router = APIRouter(tags=["upkeep"])


class LayerOut(Shape):
    """What one layer holds."""

    kind: str
    encoder: str
    images: int
    bytes_per_image: float
    index: str
    """How its rows are searched: exact, or compressed to some bits a dimension."""
    recall: float | None
    """The share of the best 100 images that its compressed index found when that was measured."""


class InfoOut(Shape):
    """What a collection holds, and what it costs on disk."""

    folder: str
    """By name, as everywhere: not where it is on the server's disk."""
    encoder: str
    roots: dict[str, str]
    images: int
    tombstones: int
    skipped: int
    ignored: int
    tags: dict[str, int]
    layers: list[LayerOut]
    bytes: int


class RemoveIn(Sent):
    """Images to forget."""

    image_ids: ImageIds


class RemovedOut(Shape):
    """How many files that were."""

    files: int


class NamesIn(Sent):
    """Ids of removed files, or folders of them."""

    names: ImageIds


class LayerIn(Sent):
    """A layer: its kind, or its full name."""

    layer: str


class CheckIn(Sent):
    """Whether damaged rows are set aside; indexing again makes them anew."""

    repair: bool = True


class CheckOut(Shape):
    """What was found and mended."""

    shards: int
    broken: list[str]
    images_to_read_again: int
    doubled: int
    lost: list[str]
    notes: list[str]


class CompactedOut(Shape):
    """The bytes freed."""

    freed: int


@router.get("/collections/{name}/info")
async def info(served: ServedHere, library: LibraryHere) -> InfoOut:
    """Its layers, tags and bytes."""
    found, places = await served.info(), library.places()
    roots = {name: places.said(str(path)) for name, path in found.roots.items()}
    return InfoOut.model_validate(asdict(found) | {"folder": places.said(str(found.folder)), "roots": roots})


@router.post("/collections/{name}/remove")
async def remove(served: ServedHere, asked: RemoveIn) -> RemovedOut:
    """Forget images; their files stay on disk and are ignored from now on, until `unignore`."""
    return RemovedOut(files=await served.writing(lambda found: found.remove(*asked.image_ids)))


@router.get("/collections/{name}/ignored")
async def ignored(served: ServedHere) -> list[str]:
    """The ids of removed files, which indexing leaves out."""
    return await served.reading(lambda found: found.ignored())


@router.post("/collections/{name}/unignore")
async def unignore(served: ServedHere, asked: NamesIn) -> RemovedOut:
    """Let removed files be indexed again, by the next job."""
    return RemovedOut(files=await served.writing(lambda found: found.unignore(*asked.names)))


@router.post("/collections/{name}/drop-layer")
async def drop_layer(served: ServedHere, asked: LayerIn) -> CompactedOut:
    """Forget a layer and free its space."""
    return CompactedOut(freed=await served.writing(lambda found: found.drop_layer(asked.layer)))


@router.post("/collections/{name}/check")
async def check(served: ServedHere, library: LibraryHere, asked: CheckIn) -> CheckOut:
    """Verify every byte of it."""
    places = library.places()

    def run(found: Collection) -> CheckOut:
        report = found.check(repair=asked.repair)
        broken = [places.said(str(path)) for path in report.broken]
        return CheckOut.model_validate(asdict(report) | {"broken": broken})

    return await served.writing(run)


@router.post("/collections/{name}/compact")
async def compact(served: ServedHere) -> CompactedOut:
    """Free the space of removed and changed images."""
    return CompactedOut(freed=await served.writing(lambda found: found.compact()))
