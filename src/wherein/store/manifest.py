"""What manifest.json holds: the format, the roots, the layers and which encoder serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from wherein.copies import write_guarded
from wherein.errors import CollectionCorrupt

FORMAT: Final = 1
"""The major version of what is on disk: it is raised when older versions could not read it."""
THUMBS: Final = "thumbs"
"""The kind and the name of the layer of small JPEGs."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One kind of embedding of every image: what made it, and the shape of one row."""

    name: str
    kind: str
    spec: str = ""
    digest: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = "uint8"

    @property
    def row_bytes(self) -> int | None:
        """Bytes of one row; None where rows differ."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize if self.shape else None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What manifest.json holds. Roots: name → folder, relative to the collection where that is possible."""

    encoder: str = ""
    roots: Mapping[str, str] = field(default_factory=dict)
    layers: Mapping[str, Layer] = field(default_factory=dict)
    every: float | None = None
    """Seconds that a video may go on without an image; None: its videos were read before there was a choice."""
    follow_links: bool = False
    """Whether links that leave the roots are followed while indexing."""
    index: str = ""
    """The index that it was told to keep: exact, compressed or compressed:BITS; empty: as its size calls for."""

    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The document as it was read: what newer versions wrote there is kept when this one writes."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check a manifest; keys that only newer versions know are left alone."""
        try:
            values: dict[str, Any] = json.loads(path.read_text("utf-8"))
            if values["format"] != FORMAT:
                raise CollectionCorrupt(
                    f"{path}: has format {values['format']}, this wherein reads {FORMAT}. "
                    "Upgrade wherein, or index into a new collection."
                )
            return cls(
                str(values["encoder"]),
                dict(values["roots"]),
                {name: _layer(layer) for name, layer in values["layers"].items()},
                values.get("every"),
                bool(values.get("follow_links")),
                str(values.get("index", "")),
                values,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CollectionCorrupt(
                f"{path}: is not a valid manifest ({error}). `wherein check -c {path.parent}` restores it."
            ) from error

    def write(self, path: Path) -> None:
        """Replace the manifest in one step."""
        before = self.unknown.get("layers", {})
        layers = {name: {**before.get(name, {}), **asdict(layer)} for name, layer in self.layers.items()}
        known = {"format": FORMAT, "encoder": self.encoder, "roots": dict(self.roots), "layers": layers}
        own = {one.name for one in fields(self)}
        document = {key: value for key, value in self.unknown.items() if key not in own} | known
        document |= {} if self.every is None else {"every": self.every}
        document |= {"follow_links": True} if self.follow_links else {}
        document |= {"index": self.index} if self.index else {}
        write_guarded(path.parent, path.name, json.dumps(document, indent=2, ensure_ascii=False).encode())


def _layer(values: Mapping[str, Any]) -> Layer:
    """A layer from what the manifest says of it."""
    known = {own.name for own in fields(Layer)}
    told = {key: value for key, value in values.items() if key in known}
    return Layer(**{**told, "shape": tuple(values["shape"])})
