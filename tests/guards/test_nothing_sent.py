"""onnxruntime's wheel queues events for its maker in the user's cache folder; in wherein's processes it must not."""

import os
import subprocess
import sys
from pathlib import Path

WATCHED = """
import {first}
from pathlib import Path
from wherein.encoders import load
load("mini").texts(["a dog"])
"""


def left_behind(home: Path, first: str) -> list[str]:
    """What a process that embeds a text leaves in an empty home folder."""
    home.mkdir()
    unset = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment = unset | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    subprocess.run([sys.executable, "-c", WATCHED.format(first=first)], env=environment, check=True)
    return [path.name for path in home.rglob("*") if path.is_file()]


def test_an_embedding_leaves_no_queue_of_events(tmp_path: Path) -> None:
    assert left_behind(tmp_path / "home", "wherein") == []


def test_the_instrument_sees_the_queue_of_a_program_that_loads_onnxruntime_first(tmp_path: Path) -> None:
    assert "onnxruntime.db" in left_behind(tmp_path / "home", "onnxruntime")
