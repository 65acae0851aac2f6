"""wherein: visual search that answers which image, and where in it.

    import wherein

    pictures = wherein.open("Pictures", create=True)
    pictures.add("Pictures")
    for hit in pictures.search("a dog on the beach"):
        print(hit.image_id, hit.confidence)

Importing wherein is free: what a name needs is loaded when the name is first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wherein.client import RemoteCollection, connect
    from wherein.collection import Collection, mend, open, restore
    from wherein.encoders import Encoded, Encoder, check_encoder
    from wherein.errors import CollectionError, ImageError, InputError, WhereinError
    from wherein.images.image import Image, decode
    from wherein.localizers import Heatmap, Localizer, Located, check_localizer
    from wherein.localizers.snapping import snap
    from wherein.output.exports import export
    from wherein.search.locating import locate
    from wherein.values.judgement import Judgement
    from wherein.values.method import Method
    from wherein.values.query import Part, Query
    from wherein.values.ranking import Hit, Ranking
    from wherein.values.region import Box, Grid, place

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
    "mend",
    "open",
    "place",
    "restore",
    "snap",
]

_HOMES = {
    "Judgement": "values.judgement",
    "RemoteCollection": "client",
    "connect": "client",
    "Collection": "collection",
    "mend": "collection",
    "open": "collection",
    "restore": "collection",
    "Encoded": "encoders",
    "Encoder": "encoders",
    "check_encoder": "encoders",
    "CollectionError": "errors",
    "ImageError": "errors",
    "InputError": "errors",
    "WhereinError": "errors",
    "export": "output.exports",
    "Image": "images.image",
    "decode": "images.image",
    "Heatmap": "localizers",
    "Localizer": "localizers",
    "Located": "localizers",
    "check_localizer": "localizers",
    "snap": "localizers.snapping",
    "locate": "search.locating",
    "Method": "values.method",
    "Part": "values.query",
    "Query": "values.query",
    "Box": "values.region",
    "Grid": "values.region",
    "place": "values.region",
    "Hit": "values.ranking",
    "Ranking": "values.ranking",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wherein' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"wherein.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
