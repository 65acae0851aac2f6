"""The same pictures give the same rankings: in any order, by any number of workers, with other vector instructions."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from figures import LONG, note

PROGRAM = """
import json, os, sys
from pathlib import Path
import cv2, faiss, numpy, simsimd
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from threadpoolctl import threadpool_info
import wherein
if "SIMSIMD" in os.environ:
    for name, there in simsimd.get_capabilities().items():
        if there and name != "serial":
            simsimd.disable_capability(name)
home, folder, workers, order, encoder = sys.argv[1:6]
methods = ["whole", "static-9", "bow", "asmk", "vlad"]
files = sorted(Path(folder).glob("*.png"))
with wherein.open(home, create=True, encoder=encoder) as collection:
    if order != "as it is":
        collection.add(files[0], layers=["global", "patches", "cells", "local"])
        for file in reversed(files[1:]) if order == "back" else ():
            collection.add(file, workers=int(workers))
        collection.add(folder, workers=int(workers))
    found = {}
    for method in methods:
        for query in files[:4]:
            hits = collection.search(query, method=method, k=50)
            found[f"{method} {query.name}"] = [(hit.image_id, hit.score) for hit in hits]
    words = {path.name: path.read_bytes().hex() for path in collection.folder.glob("derived/*/codebook@*.npy")}
blas = {one["architecture"] for one in threadpool_info() if "numpy" in one["filepath"] and "architecture" in one}
used = {
    "numpy": [one for one in __cpu_dispatch__ if __cpu_features__.get(one)],
    "OpenBLAS": sorted(blas),
    "faiss": faiss.SIMDConfig.get_level_name(),
    "OpenCV": [one for one in cv2.getCPUFeaturesLine().split() if one.startswith("*") and not one.endswith("?")],
    "simsimd": [name for name, there in simsimd.get_capabilities().items() if there],
}
print(json.dumps({"rankings": found, "codebooks": words, "used": used}))
"""
SWITCHES = {
    "numpy": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"},
    "OpenBLAS": {"OPENBLAS_CORETYPE": "Nehalem"},
    "faiss": {"FAISS_SIMD_LEVEL": "NONE"},
    "OpenCV": {"OPENCV_CPU_DISABLE": "AVX512-SKX,AVX2,FP16,AVX,SSE4.2,SSE4.1"},
    "simsimd": {"SIMSIMD": "serial"},
}
"""What makes each library do without the vector instructions of this machine; simsimd is told by the program."""
WITHOUT: dict[str, Any] = {
    "numpy": [], "OpenBLAS": ["Nehalem"], "faiss": "NONE", "OpenCV": [], "simsimd": ["serial"],
}  # fmt: skip
"""What each then says that it uses: a switch that is not heard would prove nothing."""
EXACT = [library for library in SWITCHES if library != "OpenCV"]
"""Without its instructions OpenCV gives one descriptor of SIFT in a hundred another last digit, so that pictures which
have nothing in common may change places; what resembles the query may not."""
OLD = {name: value for library in EXACT for name, value in SWITCHES[library].items()}
ALIKE = {"000.png": 1, "001.png": 2, "002.png": 2, "003.png": 1}
"""How many pictures resemble each query, itself among them."""
ORDERS = {"one worker": ("1", "at once"), "the other way round, one by one": ("2", "back")}
Found = dict[str, dict[str, Any]]


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


def run(pictures: Path, home: Path, *, how: tuple[str, str], switches: dict[str, str], encoder: str = "toy") -> Found:
    """What a process of its own finds, and what it uses."""
    command = [sys.executable, "-c", PROGRAM, str(home), str(pictures), *how, encoder]
    done = subprocess.run(command, env=os.environ | switches, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: Found = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def plain_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this machine builds its collection."""
    return tmp_path_factory.mktemp("plain") / "home"


@pytest.fixture(scope="module")
def plain(pictures: Path, plain_home: Path) -> Found:
    """What this machine finds, with all its cores and instructions."""
    return run(pictures, plain_home, how=("2", "at once"), switches={})


def same(one: Found, other: Found) -> None:
    """Every ranking is the same."""
    for query, hits in one["rankings"].items():
        assert [hit[0] for hit in other["rankings"][query]] == [hit[0] for hit in hits], query


def heard(library: str, plain: Found, other: Found) -> None:
    """The switch took effect, on a processor where it can."""
    if plain["used"][library] == WITHOUT[library]:
        pytest.skip(f"this processor has no vector instructions that {library} could do without")
    assert other["used"][library] == WITHOUT[library]


@pytest.mark.parametrize("name", ORDERS if LONG else ["one worker"])
def test_the_same_pictures_rank_the_same_in_any_order(pictures: Path, plain: Found, tmp_path: Path, name: str) -> None:
    other = run(pictures, tmp_path / "home", how=ORDERS[name], switches={})
    same(plain, other)
    note(f"rankings: {name}", tries=len(plain["rankings"]), changed=0)


@pytest.mark.parametrize("library", [*EXACT, "all of them"] if LONG else ["all of them"])
def test_the_same_pictures_rank_the_same_without_vector_instructions(
    pictures: Path, plain: Found, tmp_path: Path, library: str
) -> None:
    other = run(pictures, tmp_path / "home", how=("2", "at once"), switches=SWITCHES.get(library, OLD))
    for each in [library] if library in SWITCHES else EXACT:
        heard(each, plain, other)
    same(plain, other)
    note(f"rankings: without vector instructions of {library}", tries=len(plain["rankings"]), changed=0)


def test_what_resembles_the_query_ranks_the_same_without_vector_instructions_of_opencv(
    pictures: Path, plain: Found, tmp_path: Path
) -> None:
    other = run(pictures, tmp_path / "home", how=("2", "at once"), switches=SWITCHES["OpenCV"])
    heard("OpenCV", plain, other)
    for asked, hits in plain["rankings"].items():
        count = ALIKE[asked.split()[1]]
        assert [hit[0] for hit in other["rankings"][asked][:count]] == [hit[0] for hit in hits[:count]], asked
    note("first hits: without vector instructions of OpenCV", tries=len(plain["rankings"]), changed=0)


def test_a_collection_has_the_same_words_without_vector_instructions(
    pictures: Path, plain: Found, plain_home: Path, tmp_path: Path
) -> None:
    """What is stored is the same; what is derived from it is computed again, to the last bit of every codebook."""
    home = tmp_path / "home"
    shutil.copytree(plain_home, home)
    shutil.rmtree(home / ".wherein" / "derived")
    other = run(pictures, home, how=("2", "as it is"), switches=OLD)
    for library in EXACT:
        heard(library, plain, other)
    assert len(plain["codebooks"]) == 2  # of bow and asmk, and of vlad
    assert other["codebooks"] == plain["codebooks"]
    same(plain, other)
    note("codebooks: without vector instructions", tries=len(plain["codebooks"]), changed=0)


TRAINING = """
import hashlib
import numpy as np
from wherein.kernels.codebook import Codebook
rows = np.rint(np.random.default_rng(19).gamma(0.3, 1, (33_000, 128)) * 3)  # as sparse as histograms of SIFT
rows = np.sqrt(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)).astype(np.float32)
codebook = Codebook.train(rows, words=512)
print(codebook.digest, hashlib.sha256(codebook.words(rows, nearest=3).tobytes()).hexdigest())
"""


def test_words_are_learnt_and_found_the_same_without_vector_instructions() -> None:
    said = [
        subprocess.run([sys.executable, "-c", TRAINING], env=os.environ | more, capture_output=True, check=True).stdout
        for more in (dict[str, str](), OLD)
    ]
    assert said[0] == said[1]
