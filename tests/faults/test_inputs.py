"""Malformed files, and anything at all given to every parser: an answer or an error of ours, never anything else."""

import contextlib
import resource
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from corpus import malformed
from figures import LONG, note, size
from hypothesis import given, settings
from hypothesis import strategies as st
from parsers import FILES, PARSERS

from wherein.errors import ImageError, WhereinError
from wherein.images import isolated
from wherein.store.labels import Labels

MOST_BYTES = 3 << 29
"""1.5 GB: what a decoder may ever hold."""


def test_malformed_files_are_decoded_or_refused(tmp_path: Path) -> None:
    decoded = refused = failed = 0
    count = size(150, 5_000)
    for number, (format_, data) in enumerate(malformed(count, seed=19)):
        try:
            if format_ == "film":
                path = tmp_path / "clip.mp4"
                path.write_bytes(data)
                list(isolated.keyframes(path))
            else:
                isolated.decode(data, name=f"{number}.{format_}")
            decoded += 1
        except ImageError as error:
            refused += 1
            failed += "its decoder failed" in str(error)
    assert decoded + refused == count
    assert decoded > count // 20, "a corpus that is all rubbish tests little"
    isolated._POOL.close()  # what a process held at most is known when it has ended
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert most < MOST_BYTES
    note("malformed files", tries=count, decoded=decoded, refused=refused, killed=failed, bytes=most)


WORDS = st.text(st.sampled_from("0123456789.,+-~@:#=_/*abcdefghxyz inf nan\x00é☃"), max_size=40) | st.text(max_size=60)


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_answers_or_refuses_any_text(name: str) -> None:
    @settings(max_examples=size(50, 2_000), deadline=None)
    @given(WORDS)
    def any_text(text: str) -> None:
        with contextlib.suppress(WhereinError):
            PARSERS[name](text)

    any_text()
    note(f"texts for {name}", tries=size(50, 2_000))


@pytest.mark.parametrize("name", FILES)
def test_a_reader_of_files_answers_or_refuses_any_bytes(name: str, tmp_path: Path) -> None:
    begins = [
        b"",
        b"\x93NUMPY\x01\x00",
        b"\x80\x04",
        b'{"format": 1, "encoder": "toy", "roots": {}, "layers": ',
        b"[" * 900,
    ]

    @settings(max_examples=size(50, 2_000), deadline=None)
    @given(st.sampled_from(begins), st.binary(max_size=300))
    def any_bytes(begin: bytes, rest: bytes) -> None:
        path = tmp_path / "file"
        path.write_bytes(begin + rest)
        with contextlib.suppress(WhereinError):
            FILES[name](path)

    any_bytes()
    note(f"files for {name}", tries=size(50, 2_000))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=size(100, 2_000), deadline=None)
@given(st.fixed_dictionaries({"layer": JSON, "roots": JSON, "files": JSON, "images": JSON, "rows": JSON}) | JSON)
def test_what_a_shard_says_of_itself_is_understood_or_left(document: Any) -> None:
    labels = Labels.of(document)
    assert labels is None or Labels.of(labels.to_document()) == labels


@pytest.mark.skipif(not LONG or find_spec("atheris") is None, reason="the long form, with the extra fuzz")
@pytest.mark.parametrize("name", [*PARSERS, *FILES])
def test_a_parser_answers_or_refuses_what_atheris_finds(name: str) -> None:
    runs = 100_000 if name in PARSERS else 20_000
    command = [sys.executable, str(Path(__file__).with_name("fuzz.py")), name, "--runs", str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    note(f"atheris for {name}", tries=runs)
