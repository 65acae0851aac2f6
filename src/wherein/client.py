"""A served collection from Python: `wherein.connect(url)` gives the same objects as a local one."""

from __future__ import annotations

import io
import json
import os
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self, Unpack

import numpy as np
import PIL.Image

from wherein import errors
from wherein.client_learning import RemoteLearning, as_sent
from wherein.door import Door as _Door
from wherein.door import named_error
from wherein.images.image import ImageLike
from wherein.images.picture import read_bytes
from wherein.images.video import seconds_of
from wherein.options import Askable, Asked, Filters, Options, image_ids_of, lists_options, only_filters, several
from wherein.values.address import Location
from wherein.values.judgement import Calibration, Curve, Judgement, Reliability, Tenth
from wherein.values.masks import to_rle
from wherein.values.method import Method
from wherein.values.query import Part, Query
from wherein.values.ranking import Hit, PointMatches, Ranking
from wherein.values.records import AddReport, CheckReport, Details, Info, LayerInfo, Progress, PushReport, Skip

_LOCATED_AT_ONCE: Final = 100
"""Hits that are outlined by one request: about a second."""


def connect(url: str, *, collection: str | None = None, token: str | None = None) -> RemoteCollection:
    """The collection that the server at `url` serves; its first one unless one is named.

    The token may also be part of the address, as `wherein serve` prints it: http://host:7333/?token=…
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise errors.InputError(f"{url!r} is no address of a server: write http://127.0.0.1:7333.")
    given = urllib.parse.parse_qs(parts.query).get("token", [None])[0]
    door = _Door(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/api/v1", token or given)
    served = [str(found["name"]) for found in door.json("GET", "/collections")]
    if not served or (collection is not None and collection not in served):
        raise errors.CollectionNotFound(f"{url}: serves {', '.join(served) or 'nothing'}, not {collection}.")
    return RemoteCollection(door, collection or served[0])


class RemoteCollection(RemoteLearning):
    """A collection behind HTTP. Its answers are those of the local one."""

    _door: _Door

    def __init__(self, door: _Door, name: str) -> None:
        self._door, self.name = door, name
        self._base = f"/collections/{urllib.parse.quote(name, safe='')}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self._door.json("GET", self._base)["images"])

    def __repr__(self) -> str:
        return f"<RemoteCollection {self.name} at {self._door.url}>"

    @property
    def encoder(self) -> str:
        """The spec of the encoder that serves searches."""
        return str(self._door.json("GET", self._base)["encoder"])

    def close(self) -> None:
        """Do nothing: no connection stays open between calls. It is here because `Collection` has it."""

    @lists_options(Options)
    def search(self, query: Askable, **options: Unpack[Options]) -> Ranking:
        """As `Collection.search`; examples are sent along."""
        asked = Asked.of(query, options)
        uploads = list[tuple[str, bytes]]()
        body = {"parts": [_part(part, uploads) for part in asked.query.parts], **as_sent(options)}
        if uploads:
            found = self._door.upload(f"{self._base}/search/upload", body, uploads)
        else:
            found = self._door.json("POST", f"{self._base}/search", body=body)
        return _ranking(found, asked.query)

    def locate_hits(self, query: Askable, hits: Iterable[Hit], *, method: str | Method = "") -> Iterator[Hit]:
        """As `Collection.locate_hits`."""
        given = {hit.image_id: hit for hit in hits}
        for start in range(0, len(given), _LOCATED_AT_ONCE):
            some = list(given)[start : start + _LOCATED_AT_ONCE]
            found = self.search(query, method=method, locate=True, among=some, k=len(some))
            outlined = {hit.image_id: hit for hit in found}
            for image_id in some:
                if image_id in outlined:
                    yield replace(given[image_id], box=outlined[image_id].box, mask=outlined[image_id].mask)

    def matches(self, query: Askable, image_id: str) -> PointMatches:
        """As `Collection.matches`, for an image of the collection; examples are sent first."""
        asked = {"parts": [self._sent(part) for part in Query.of(query).parts], "image_id": image_id}
        found = self._door.json("POST", f"{self._base}/matches", body=asked)
        return PointMatches(found["part"], found["inliers"], tuple((a, b, c, d) for a, b, c, d in found["lines"]))

    def calibrate(self, judgements: Iterable[Judgement], *, method: str | Method = "") -> list[Calibration]:
        """As `Collection.calibrate`; examples are sent first."""
        sent = [
            {
                "parts": [self._sent(part) for part in one.query.parts],
                "right": sorted(one.right),
                "wrong": None if one.wrong is None else sorted(one.wrong),
            }
            for one in judgements
        ]
        made = self._door.json("POST", f"{self._base}/calibrate", body={"judgements": sent, "method": str(method)})
        return [Calibration(**one | {"curve": one["curve"] and Curve(**one["curve"])}) for one in made]

    def reliability(self) -> list[Reliability]:
        """As `Collection.reliability`."""
        found = self._door.json("GET", f"{self._base}/reliability")
        return [Reliability(**one | {"tenths": tuple(Tenth(**tenth) for tenth in one["tenths"])}) for one in found]

    def uncalibrate(self, step: int | None = None, *, reset: bool = False) -> str:
        """As `Collection.uncalibrate`."""
        asked = {"step": step, "reset": reset}
        return str(self._door.json("POST", f"{self._base}/uncalibrate", body=asked)["changed"])

    def add(
        self,
        *folders: str | os.PathLike[str],
        encoder: str | None = None,
        layers: Sequence[str] | None = None,
        every: float | str | None = None,
        verify: bool = False,
        index: str | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> AddReport:
        """As `Collection.add`, for folders of the server's machine that it may index; with none, all it knows."""
        asked = [os.fspath(folder) for folder in folders] or [str(root) for root in self.info().roots.values()]
        total = AddReport()
        for folder in asked:
            body: dict[str, Any] = {"folder": folder, "collection": self.name, "encoder": encoder, "verify": verify}
            body |= {"layers": layers and list(layers), "every": None if every is None else seconds_of(every)}
            body |= {} if index is None else {"index": index}
            total = _joined(total, self._followed(self._door.json("POST", "/jobs", body=body), on_progress))
        return total

    def push(
        self,
        *,
        layers: Sequence[str] | None = None,
        index_type: str | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> list[PushReport]:
        """As `Collection.push`, to the index that the server was started with."""
        job = self._door.json("POST", f"{self._base}/push", body={"layers": layers, "index_type": index_type})
        return [PushReport(**one) for one in self._followed(job, on_progress)["layers"]]

    def publish(self, *, on_progress: Callable[[Progress], None] = lambda _: None) -> tuple[int, int]:
        """As `Collection.publish`, to the address that the server was started with."""
        report = self._followed(self._door.json("POST", f"{self._base}/publish"), on_progress)
        return int(report["files"]), int(report["images"])

    def remove(self, *image_ids: str | Iterable[str]) -> int:
        """Forget images, named one by one or in lists (their files stay). Returns how many files that were."""
        named = image_ids_of(image_ids)
        return int(self._door.json("POST", f"{self._base}/remove", body={"image_ids": named})["files"])

    def ignored(self) -> list[str]:
        """The ids of files that were removed and that indexing leaves out, sorted."""
        return list(self._door.json("GET", f"{self._base}/ignored"))

    def unignore(self, *names: str) -> int:
        """Let removed files be indexed again by the next `add`: ids, or folders of them. Returns how many."""
        return int(self._door.json("POST", f"{self._base}/unignore", body={"names": list(names)})["files"])

    def drop_layer(self, name: str) -> int:
        """Forget a layer: its kind, or its full name. Returns the bytes freed."""
        return int(self._door.json("POST", f"{self._base}/drop-layer", body={"layer": name})["freed"])

    def info(self) -> Info:
        """What the collection holds, and its bytes per image."""
        found = self._door.json("GET", f"{self._base}/info")
        layers = tuple(LayerInfo(**layer) for layer in found["layers"])
        roots: dict[str, Location] = {name: Path(path) for name, path in found["roots"].items()}
        return Info(**found | {"folder": Path(found["folder"]), "roots": roots, "layers": layers})

    def check(self, *, repair: bool = True) -> CheckReport:
        """Verify every file, as `Collection.check`. Damaged rows are set aside; `add()` makes them again."""
        found = self._door.json("POST", f"{self._base}/check", body={"repair": repair})
        texts = {name: tuple(found.get(name, ())) for name in ("lost", "notes")}
        return CheckReport(**found | texts | {"broken": tuple(map(Path, found["broken"]))})

    def compact(self) -> int:
        """Free the space of removed and replaced images. Returns the bytes freed."""
        return int(self._door.json("POST", f"{self._base}/compact")["freed"])

    @lists_options(Filters)
    def image_ids(self, **filters: Unpack[Filters]) -> list[str]:
        """The ids of all images, or of those that pass the filters, sorted."""
        only_filters(filters)
        return list(self._pages(as_sent(filters)))

    def details(self, image_id: str) -> Details:
        """What is known about one image."""
        found = self._door.json("GET", f"{self._base}/image", query={"image_id": image_id})
        same = {key: found[key] for key in ("image_id", "taken", "seconds", "file_bytes", "digest")}
        return Details(size_wh=_pair(found["size_wh"]), path=None, tags=tuple(found["tags"]), **same)

    def frames(self, image_id: str) -> list[str]:
        """The images of the same file, in order."""
        found = self._door.json("GET", f"{self._base}/image", query={"image_id": image_id})
        return list(found["frames"]) or [image_id]

    def tag(self, tag: str, image_ids: Iterable[str]) -> None:
        """Tag images, as `Collection.tag`."""
        self._door.json("POST", f"{self._base}/tags", body={"tag": tag, "image_ids": several("image_ids", image_ids)})

    def untag(self, tag: str, image_ids: Iterable[str]) -> None:
        """Take a tag off images."""
        self._door.json("POST", f"{self._base}/untag", body={"tag": tag, "image_ids": several("image_ids", image_ids)})

    def original(self, image_id: str) -> bytes:
        """The image's own file."""
        return self._door.content("GET", f"{self._base}/original", query={"image_id": image_id})

    def _sent(self, part: Part) -> dict[str, Any]:
        """A part whose image the server has been sent."""
        uploads = list[tuple[str, bytes]]()
        values = _part(part, uploads)
        for _, data in uploads:
            answer = self._door.content("POST", f"{self._base}/examples", data=data, kind="application/octet-stream")
            values |= {"upload": None, "example": json.loads(answer)["example"]}
        return values

    def _followed(self, job: dict[str, Any], on_progress: Callable[[Progress], None]) -> dict[str, Any]:
        """The report of a job when it has ended; it is cancelled when this side is interrupted."""
        path = f"/jobs/{job['id']}"
        try:
            while job["state"] == "running":  # a stream ends after some minutes, whether the job has or not
                for now in self._door.events(f"{path}/events"):
                    job = now
                    on_progress(Progress(now["done"], now["total"]))
        except BaseException:
            self._door.json("POST", f"{path}/cancel")
            raise
        if job["report"] is None:
            raise named_error(
                job["error"] or {"kind": "CollectionError", "message": f"{job['folder']}: was cancelled."}
            )
        report: dict[str, Any] = job["report"]
        return report

    def _pages(self, filters: dict[str, Any]) -> Iterator[str]:
        offset, total = 0, 1
        while offset < total:
            page = self._door.json("GET", f"{self._base}/images", query=filters | {"offset": offset, "limit": 1000})
            total, offset = page["total"], offset + len(page["images"])
            yield from (image["image_id"] for image in page["images"])
            if not page["images"]:
                return


def _joined(total: AddReport, more: dict[str, Any]) -> AddReport:
    """The sum of what two folders' indexing did."""
    one = AddReport(**more | {"skipped": [Skip(**skip) for skip in more["skipped"]]})
    return AddReport(**{name: getattr(total, name) + getattr(one, name) for name in more})


def _part(part: Part, uploads: list[tuple[str, bytes]]) -> dict[str, Any]:
    values: dict[str, Any] = {"weight": part.weight, "negative": part.negative}
    if part.text is not None:
        values["text"] = part.text
    elif part.image_id is not None:
        values["image_id"] = part.image_id
    elif part.image is not None:
        name = f"image-{len(uploads)}"
        uploads.append((name, _bytes(part.image)))
        values["upload"] = name
    if part.box is not None:
        values["box"] = list(part.box.xyxy)
    pixels = part.pixels()
    if pixels is not None:
        values["mask"] = to_rle(pixels)
    if part.where is not None:
        values |= {"where": list(part.where.xyxy), "said_where": part.said_where}
    return values


def _bytes(image: ImageLike) -> bytes:
    """An example as a file: as it is on disk, or losslessly."""
    if isinstance(image, bytes):
        return image
    if isinstance(image, np.ndarray | PIL.Image.Image):
        buffer = io.BytesIO()
        picture = PIL.Image.fromarray(image) if isinstance(image, np.ndarray) else image
        picture.save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()
    return read_bytes(image)


def _ranking(found: dict[str, Any], asked: Query) -> Ranking:
    """What the server found, for the query as it was asked here."""
    # Files lie on the server's machine; `original` fetches them.
    listed = {kind: [hit | {"path": None} for hit in found[kind]] for kind in ("hits", "rejected")}
    return Ranking.from_dict(found | listed | {"query": str(asked), "label": asked.label})


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    return first, second
