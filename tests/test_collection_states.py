"""Whatever happens to a collection, it answers as one that is built afresh from the files that are there."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import wherein
from wherein import Box, Part, Ranking
from wherein.options import Options

NAMES = ("a.png", "b.png", "film.mp4", "deep/c.png", "d.png", "deep/film.mp4", "e.png")
CONTENTS = range(4)
LATER = ("patches", "cells", "proposals", "pyramid", "static-5", "local", "thumbs")
"""Layers that are added and dropped again; `global` is always there."""
WORDS = {
    "whole": (),
    "append-short": (),
    "append-long": (),
    "whole+qe+diffusion": (),
    "patches": ("patches",),
    "patches~alone": ("patches",),
    "static-5": ("patches", "cells"),
    "static-9~alone": ("cells",),
    "static-5~crop~alone": ("static-5",),
    "proposals": ("proposals",),
    "pyramid": ("pyramid",),
    "bow": ("local",),
    "vlad": ("local",),
    "asmk": ("local",),
    "bow+static-5": ("local",),
    "asmk+proposals": ("local", "proposals"),
    "ENCODER+bow": ("local",),
    "ENCODER+vlad+dba": ("local",),
}
"""Search words and kernels, and the layers that each needs beside `global`."""
COMMANDS = {
    "index": ["index", "FOLDER"],
    "check": ["check", "-c", "FOLDER"],
    "compact": ["compact", "-c", "FOLDER"],
}
"""What other processes do to the collection while it is open here."""


def draw(content: int) -> PIL.Image.Image:
    """A small picture full of corners, of its own colours; one is so wide that it has tiles."""
    random = np.random.default_rng(content)
    width, height = (192, 64) if content == 3 else (96, 80)
    pixels = np.full((height, width, 3), random.integers(0, 256, 3), np.uint8)
    for _ in range(40):
        x, y = int(random.integers(0, width - 6)), int(random.integers(0, height - 6))
        w, h = (int(side) for side in random.integers(4, 24, 2))
        pixels[y : y + h, x : x + w] = random.integers(0, 256, 3)
    return PIL.Image.fromarray(pixels)


def shoot(content: int, path: Path) -> None:
    """A film of two pictures, two seconds each."""
    import av
    from av.video.stream import VideoStream

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10, options={"g": "20", "sc_threshold": "1000000000"})
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = 96, 80, "yuv420p"
        for shown in (content, (content + 1) % len(CONTENTS)):
            frame = av.VideoFrame.from_ndarray(np.asarray(draw(shown).resize((96, 80))), format="rgb24")
            container.mux([packet for _ in range(20) for packet in stream.encode(frame)])
        container.mux(list(stream.encode(None)))


def file_of(image_id: str) -> str:
    """The file that an image is of."""
    return image_id.partition("#t=")[0]


def told(ranking: Ranking) -> dict[str, float]:
    """What was found, and how well."""
    return {hit.image_id: hit.score for hit in ranking}


class Collections(RuleBasedStateMachine):
    """A folder that changes in every way, and its collection."""

    @initialize(
        contents=st.lists(st.sampled_from(CONTENTS), min_size=2, max_size=4),
        layers=st.sets(st.sampled_from(LATER), min_size=2),
    )
    def begin(self, contents: list[int], layers: set[str]) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="wherein-states-"))
        self.folder = self.home / "pictures"
        self.clock = 10**18
        for name, content in zip(NAMES, contents, strict=False):
            self._put(name, content)
        self.layers = layers
        self.removed: set[str] = set()
        self.encoder = "toy"
        self.taught_to = ""
        with wherein.open(self.folder, create=True, encoder="toy") as made:
            made.add(self.folder, layers=("global", *sorted(layers)))
        self.collection = wherein.open(self.folder)

    def teardown(self) -> None:
        if hasattr(self, "collection"):
            try:
                self.answers_as_one_built_afresh(0)
            finally:
                self.collection.close()
                shutil.rmtree(self.home)

    def _put(self, name: str, content: int) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".mp4":
            shoot(content, path)
        else:
            draw(content).save(path)
        self._date(path)

    def _date(self, path: Path) -> None:
        self.clock += 10**9
        os.utime(path, ns=(self.clock, self.clock))

    def _files(self) -> list[str]:
        return [name for name in sorted(NAMES) if (self.folder / name).exists()]

    def _there(self) -> list[str]:
        return [name for name in self._files() if name not in self.removed]

    @rule(name=st.sampled_from(NAMES), content=st.sampled_from(CONTENTS))
    def write(self, name: str, content: int) -> None:
        """Add a file, or change one, perhaps into a copy of another."""
        self._put(name, content)

    @rule(source=st.sampled_from(NAMES), into=st.sampled_from(NAMES), data=st.data())
    def copy_or_rename(self, source: str, into: str, data: st.DataObject) -> None:
        if source not in self._files() or source == into or Path(source).suffix != Path(into).suffix:
            return
        (self.folder / into).parent.mkdir(exist_ok=True)
        if data.draw(st.booleans(), label="rename") and source not in self.removed and into not in self.removed:
            (self.folder / source).replace(self.folder / into)
        else:
            shutil.copyfile(self.folder / source, self.folder / into)
            self._date(self.folder / into)

    @precondition(lambda self: len(self._files()) > 1)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        (self.folder / data.draw(st.sampled_from(self._files()), label="name")).unlink()

    @precondition(lambda self: len({*map(file_of, self.collection.image_ids())}) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.collection.image_ids()), label="name")
        self.collection.remove(name)
        self.removed.add(file_of(name))

    @precondition(lambda self: self.removed)
    @rule()
    def call_back(self) -> None:
        self.collection.unignore(*self.removed)
        self.removed.clear()

    @rule()
    def index(self) -> None:
        self.collection.add()

    @rule(layer=st.sampled_from(LATER))
    def add_layer(self, layer: str) -> None:
        self.collection.add(layers=(layer,))
        self.layers.add(layer)

    @precondition(lambda self: self.layers)
    @rule(data=st.data())
    def drop_layer(self, data: st.DataObject) -> None:
        layer = data.draw(st.sampled_from(sorted(self.layers)), label="layer")
        names = [one for one in self.collection._store.manifest.layers.values() if one.kind == layer]
        for one in names:
            self.collection.drop_layer(one.name)
        self.layers.remove(layer)

    @rule()
    def compact(self) -> None:
        self.collection.compact()

    @rule(encoder=st.sampled_from(["toy", "toy:2", "toy:8"]))
    def encode_again(self, encoder: str) -> None:
        self.collection.add(encoder=encoder, layers=("global", *sorted(self.layers)))
        self.encoder = self.collection.encoder

    @rule(index=st.sampled_from(["exact", "compressed", "compressed:2", "auto"]))
    def choose_index(self, index: str) -> None:
        self.collection.add(index=index)

    @precondition(lambda self: len(self.collection.image_ids()) > 3)
    @rule()
    def teach(self) -> None:
        """Two labels are learnt from tags; they must rank whatever comes later."""
        images = self.collection.image_ids()
        for number, label in enumerate(("even", "odd")):
            self.collection.untag(label, self.collection.image_ids(tags=[label]))
            self.collection.tag(label, images[number::2])
        self.collection.train("taught", labels=["even", "odd"])
        self.taught_to = self.encoder

    def _started(self, command: str) -> subprocess.Popen[bytes]:
        words = [word.replace("FOLDER", str(self.folder)) for word in COMMANDS[command]]
        return subprocess.Popen(
            [sys.executable, "-m", "wherein", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    @rule(command=st.sampled_from(sorted(COMMANDS)))
    def another_process_changes_it(self, command: str) -> None:
        other = self._started(command)
        said, _ = other.communicate(timeout=120)
        assert other.returncode == 0, said.decode()

    @rule(command=st.sampled_from(sorted(COMMANDS)), tenths=st.integers(min_value=4, max_value=14))
    def another_process_is_killed(self, command: str, tenths: int) -> None:
        other = self._started(command)
        time.sleep(tenths / 10)
        other.kill()
        other.communicate()

    @rule(content=st.sampled_from(CONTENTS))
    def answers_as_one_built_afresh(self, content: int) -> None:
        self.collection.add()
        assert self.collection.encoder == self.encoder
        report = self.collection.check(repair=False)
        assert (report.broken, report.doubled) == ((), 0)
        fresh = self.home / "fresh"
        for name in self._there():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.folder / name, fresh / name)
        with wherein.open(fresh, create=True, encoder=self.encoder) as other:
            other.add(fresh, layers=("global", *sorted(self.layers)))
            assert self.collection.image_ids() == other.image_ids()
            assert sorted({*map(file_of, other.image_ids())}) == self._there()
            for word in (word for word, needed in WORDS.items() if self.layers.issuperset(needed)):
                self._compare(other, word.replace("ENCODER", self.encoder), content)
            if self.taught_to == self.encoder:
                self._compare_labels(other)
        shutil.rmtree(fresh)

    def _compare_labels(self, other: wherein.Collection) -> None:
        shutil.copytree(self.collection.folder / "kept" / "trained", other.folder / "kept" / "trained")
        for label in ("even", "odd"):
            options: Options = {"method": f"{self.encoder}:taught", "k": 20, "frames": True}
            mine, theirs = (one.search(f"label:{label}", **options) for one in (self.collection, other))
            assert told(mine) == pytest.approx(told(theirs), abs=1e-4), label

    def _compare(self, other: wherein.Collection, method: str, content: int) -> None:
        whole = draw(content)
        part = Part(image=whole, where=Box(0.0, 0.0, 0.5, 0.5))
        for query in (whole, [part]):
            mine = self.collection.search(query, method=method, k=20, frames=True)
            for codebook in (self.collection.folder / "derived").glob("*/codebook@*.npy"):
                copied = other.folder / "derived" / codebook.parent.name / codebook.name  # one is trained once and kept
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(codebook, copied)
            theirs = other.search(query, method=method, k=20, frames=True)
            assert told(mine) == pytest.approx(told(theirs), abs=1e-4), method


Collections.TestCase.settings = settings(
    max_examples=8,
    stateful_step_count=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    derandomize=True,
)
TestCollections = Collections.TestCase
