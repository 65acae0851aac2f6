"""A SearchAD submission from a collection of its images: what a curator kept under a label, then what was found."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from wherein.bench.searchad.dataset import LABELS, TEST_MAPPING, read_test_mapping
from wherein.bench.searchad.tools import Metadata, write_submission
from wherein.collection import Collection
from wherein.server.problems import Problem
from wherein.values.address import Location, inside
from wherein.values.query import read_query


def searchad_root(roots: Sequence[Location]) -> Path | None:
    """The folder SearchAD was unpacked into, where the collection is of it."""
    here = (root for root in roots if isinstance(root, Path))
    return next((root for root in here if (root / TEST_MAPPING).is_file()), None)


def submission(collection: Collection, kept: Mapping[str, Sequence[str]], *, metadata: Metadata, method: str) -> bytes:
    """The file to submit: for every label the images of the selection of its name, then the default query's ranking."""
    root = searchad_root(list(collection.roots.values()))
    if root is None:
        raise Problem(422, f"this collection is not SearchAD's: none of its folders holds {TEST_MAPPING}.")
    test = frozenset(read_test_mapping(root).values())
    rankings = dict[str, list[str]]()
    for label in LABELS:
        query = root / "default_queries" / f"{label}.json"
        found = [] if not query.is_file() else _found(collection, query, root=root, method=method)
        chosen = [_path(collection, image_id, root) for image_id in kept.get(label, ())]
        ranking = [path for path in dict.fromkeys([*chosen, *found]) if path in test]
        if ranking:
            rankings[label] = ranking
    if not rankings:
        raise Problem(422, f"nothing to submit: {root} has no default_queries, and no selection bears a label's name.")
    with tempfile.TemporaryDirectory() as folder:
        predictions, out = Path(folder) / "predictions.json", Path(folder) / "submission.json"
        predictions.write_text(json.dumps(rankings), "utf-8")
        write_submission(root, predictions=predictions, out=out, metadata=metadata)
        return out.read_bytes()


def _found(collection: Collection, query: Path, *, root: Path, method: str) -> list[str]:
    hits = collection.search(read_query(query), k=max(1, len(collection)), method=method)
    return [path for hit in hits if hit.path is not None and (path := inside(root, hit.path))]


def _path(collection: Collection, image_id: str, root: Path) -> str:
    path = collection.details(image_id).path
    return "" if path is None else inside(root, path) or ""
