"""wherein: visual search that answers which image, and where in it.

    import wherein

    pictures = wherein.open("Pictures", create=True)
    pictures.add("Pictures")
    for hit in pictures.search("a dog on the beach"):
        print(hit.image_id, hit.score)

Importing wherein is free: what a name needs is loaded when the name is first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wherein.calibrate import Judgement
    from wherein.client import RemoteCollection, connect
    from wherein.collection import Collection, open
    from wherein.encoders import Encoded, Encoder, check_encoder
    from wherein.errors import CollectionError, ImageError, InputError, WhereinError
    from wherein.exports import export
    from wherein.image import Image, decode
    from wherein.localizers import Heatmap, Localizer, Located, check_localizer
    from wherein.locating import locate
    from wherein.method import Method
    from wherein.query import Part, Query
    from wherein.region import Box, Grid, place
    from wherein.search import Hit, Ranking

__version__ = "0.1.0"

# onnxruntime reads this when it is loaded; without it its wheel sends events to its maker. Child processes inherit it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__all__ = [
    "Box",
    "Collection",
    "CollectionError",
    "Encoded",
    "Encoder",
    "Grid",
    "Heatmap",
    "Hit",
    "Image",
    "ImageError",
    "InputError",
    "Judgement",
    "Localizer",
    "Located",
    "Method",
    "Part",
    "Query",
    "Ranking",
    "RemoteCollection",
    "WhereinError",
    "__version__",
    "check_encoder",
    "check_localizer",
    "connect",
    "decode",
    "export",
    "locate",
    "open",
    "place",
]

_HOMES = {
    "Judgement": "calibrate",
    "RemoteCollection": "client",
    "connect": "client",
    "Collection": "collection",
    "open": "collection",
    "Encoded": "encoders",
    "Encoder": "encoders",
    "check_encoder": "encoders",
    "CollectionError": "errors",
    "ImageError": "errors",
    "InputError": "errors",
    "WhereinError": "errors",
    "export": "exports",
    "Image": "image",
    "decode": "image",
    "Heatmap": "localizers",
    "Localizer": "localizers",
    "Located": "localizers",
    "check_localizer": "localizers",
    "locate": "locating",
    "Method": "method",
    "Part": "query",
    "Query": "query",
    "Box": "region",
    "Grid": "region",
    "place": "region",
    "Hit": "search",
    "Ranking": "search",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wherein' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"wherein.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
