"""What is installed, which limits hold, whether all is well; what the server tells of itself."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import wherein
from wherein.cli import app
from wherein.doctor import TELEMETRY, Finding, examine
from wherein.encoders.onnx import OnnxSettings
from wherein.errors import SpecError
from wherein.server.routes import status


def finding(found: list[Finding], name: str) -> Finding:
    (one,) = (one for one in found if one.name == name)
    return one


def test_a_sound_installation_is_well(
    collection: wherein.Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    found = examine(folder)
    assert finding(found, "collection").said.startswith("4 images in ")
    assert finding(found, "who may read it").said == "for its owner alone"
    assert finding(found, "telemetry") == Finding("telemetry", "off")
    assert finding(found, "decoders").well
    monkeypatch.setenv(TELEMETRY, "0")
    assert not finding(examine(), "telemetry").well


def test_the_command_says_what_is_not_well(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    collection.close()
    (collection.folder / "catalogue.sqlite").write_bytes(b"rubbish")
    told = CliRunner().invoke(app, ["doctor", "-c", str(folder), "--json"])
    assert told.exit_code == 1
    wrong = [one for one in json.loads(told.stdout) if one["name"] == "collection"]
    assert "wherein check -c" in wrong[0]["said"]


def test_every_answer_has_an_id_and_slow_ones_are_told(
    collection: wherein.Collection,
    folder: Path,
    serve: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collection.add(folder)
    address = serve(folder)
    monkeypatch.setattr(status, "SLOW_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING, "wherein.server"):
        answer = httpx.get(f"{address}/api/v1/health")
        httpx.get(f"{address}/api/v1/collections")  # so that the first has been noted
    told = {line["request"]: line for line in (json.loads(record.getMessage()) for record in caplog.records)}
    line = told[answer.headers["x-request-id"]]
    assert (line["method"], line["route"], line["status"], line["slow"]) == ("GET", "/health", 200, True)
    metrics = httpx.get(f"{address}/api/v1/metrics").text
    for name in (
        'wherein_request_seconds_bucket{route="/health",le="+Inf"} 1',
        "wherein_requests_running 1",
        "wherein_collections 1",
        "process_open_fds ",
        "process_resident_memory_bytes ",
    ):
        assert name in metrics


@pytest.mark.parametrize(
    "text",
    [
        '{"size": "224"}',
        '{"size": -1}',
        '{"size": 1e9}',
        '{"size": null}',
        '{"mean": 0.5}',
        '{"mean": [1, 2]}',
        '{"std": [0, 1, 1]}',
        '{"std": ["a", "b", "c"]}',
        '{"crop": 3}',
        '{"resample": 3}',
        '{"context": "many"}',
        '{"pad_id": []}',
        '{"image_output": {}}',
        '{"lowercase": "yes"}',
        '{"nothing": 1}',
        "[]",
        '"text"',
        "[" * 100_000,
    ],
)
def test_a_damaged_description_of_an_encoder_is_told_by_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "encoder.json").write_text(text)
    with pytest.raises(SpecError, match=r"encoder\.json"):
        OnnxSettings.read(tmp_path / "encoder.json")
