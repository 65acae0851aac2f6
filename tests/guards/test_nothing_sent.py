"""onnxruntime's wheel queues events for its maker in the user's cache folder; in wherein's processes it must not."""

import os
import subprocess
import sys
from pathlib import Path

from wherein.encoders import mini

SILENCING = ("ORT_DISABLE_TELEMETRY", "CI")
"""Variables that switch the telemetry of onnxruntime off; the tests are to see what happens without them."""
WATCHED = """
import {first}
from pathlib import Path
from wherein.encoders import load
load("mini").texts(["a dog"])
"""


def left_behind(home: Path, first: str) -> list[str]:
    """What a process that embeds a text leaves in an empty home folder."""
    home.mkdir()
    unset = {name: value for name, value in os.environ.items() if name not in SILENCING}
    environment = unset | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    subprocess.run([sys.executable, "-c", WATCHED.format(first=first)], env=environment, check=True)
    return [path.name for path in home.rglob("*") if path.is_file()]


def test_an_embedding_leaves_no_queue_of_events(tmp_path: Path) -> None:
    assert left_behind(tmp_path / "home", "wherein") == []


def test_the_instrument_sees_the_queue_of_a_program_that_loads_onnxruntime_first(tmp_path: Path) -> None:
    assert "onnxruntime.db" in left_behind(tmp_path / "home", "onnxruntime")


def test_the_hub_is_told_nothing() -> None:
    code = (
        "from wherein.encoders.hf.runtime import library\n"
        "print(library('huggingface_hub.constants', 'test').HF_HUB_DISABLE_TELEMETRY)"
    )
    telling = ("HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK", "DISABLE_TELEMETRY", "HF_HUB_OFFLINE")
    unset = {name: value for name, value in os.environ.items() if name not in telling}
    done = subprocess.run([sys.executable, "-c", code], env=unset, check=True, capture_output=True, text=True)
    assert done.stdout == "True\n"


def test_training_scripts_load_onnxruntime_with_its_telemetry_off(tmp_path: Path) -> None:
    training = Path(__file__).parents[2] / "training"
    loading = [file.name for file in training.glob("*.py") if "import onnxruntime" in file.read_text()]
    assert sorted(loading) == ["export.py", "hubs.py", "integers.py", "quiet.py", "rounding.py"]
    assert all(
        "from quiet import onnxruntime" in (training / name).read_text() for name in loading if name != "quiet.py"
    )
    home = tmp_path / "home"
    home.mkdir()
    model = Path(mini.WEIGHTS) / "text.onnx"
    code = f"from quiet import onnxruntime; onnxruntime.InferenceSession({str(model)!r})"
    unset = {name: value for name, value in os.environ.items() if name not in SILENCING}
    environment = unset | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=training)
    assert [path.name for path in home.rglob("*") if path.is_file()] == []
