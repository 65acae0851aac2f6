"""The same pictures give the same rankings: in any order, by any number of workers, with other vector instructions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from figures import note, size

PROGRAM = """
import json, sys
from pathlib import Path
import wherein
home, folder, workers, order, encoder = sys.argv[1:6]
methods = ["whole", "static-9", "bow", "asmk"]
files = sorted(Path(folder).glob("*.png"))
with wherein.open(home, create=True, encoder=encoder) as collection:
    collection.add(files[0], layers=["global", "patches", "cells", "local"])
    for file in files[1:] if order == "ahead" else reversed(files[1:]):
        if order != "at once":
            collection.add(file, workers=int(workers))
    collection.add(folder, workers=int(workers))
    found = {}
    for method in methods:
        for query in files[:4]:
            hits = collection.search(query, method=method, k=50)
            found[f"{method} {query.name}"] = [(hit.image_id, hit.score) for hit in hits]
print(json.dumps(found))
"""
FAISS = {"FAISS_OPT_LEVEL": "generic", "FAISS_SIMD_LEVEL": "NONE"}
"""faiss without vector instructions: how older versions are told, and how newer ones are."""
OLD = FAISS | {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F", "OPENBLAS_CORETYPE": "Nehalem"}
VARIANTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "one worker": ("1", "at once", {}),
    "the other way round, one by one": ("2", "back", {}),
    "faiss without vector instructions": ("2", "at once", FAISS),
    "OpenBLAS for an old processor": ("2", "at once", {"OPENBLAS_CORETYPE": "Nehalem"}),
    "everything for an old processor": ("2", "at once", OLD),
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures with corners to find; every third resembles the one before."""
    folder, draw = tmp_path_factory.mktemp("pictures"), np.random.default_rng(3)
    last = draw.integers(0, 255, (24, 32, 3), np.uint8)
    for number in range(9):
        last = last if number % 3 == 2 else draw.integers(0, 255, (24, 32, 3), np.uint8)
        noisy = np.clip(last.astype(int) + draw.integers(-20, 20, last.shape), 0, 255).astype(np.uint8)
        PIL.Image.fromarray(np.kron(noisy, np.ones((12, 12, 1), np.uint8))).save(folder / f"{number:03d}.png")
    return folder


def rankings(pictures: Path, home: Path, variant: tuple[str, str, dict[str, str]]) -> dict[str, list[list[object]]]:
    workers, order, switches = variant
    command = [sys.executable, "-c", PROGRAM, str(home), str(pictures), workers, order, "toy"]
    done = subprocess.run(command, env=os.environ | switches, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[list[object]]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def plain(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[object]]]:
    """The rankings of this machine, with all its cores."""
    return rankings(pictures, tmp_path_factory.mktemp("plain") / "home", ("2", "at once", {}))


@pytest.mark.parametrize("name", VARIANTS if size(0, 1) else ["one worker", "everything for an old processor"])
def test_the_same_pictures_rank_the_same(
    pictures: Path, plain: dict[str, list[list[object]]], tmp_path: Path, name: str
) -> None:
    other = rankings(pictures, tmp_path / "home", VARIANTS[name])
    for query, hits in plain.items():
        assert [hit[0] for hit in other[query]] == [hit[0] for hit in hits], f"{name}: {query}"
    note(f"rankings: {name}", tries=len(plain), changed=0)
