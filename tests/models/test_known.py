"""The table of models: what the command prints is what is written in the docs, and the names are ones that exist."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wherein.cli import app
from wherein.detectors.hf import ARCHITECTURES as DETECTORS
from wherein.encoders import families
from wherein.encoders.hf.runtime import library
from wherein.encoders.known import HEADER, KNOWN, columns

DOCS = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_command_lists_families_and_models() -> None:
    told = CliRunner().invoke(app, ["models", "--json"])
    found = json.loads(told.stdout)
    assert set(found["families"]) == set(families())
    assert [model["spec"] for model in found["models"]] == [model.spec for model in KNOWN]
    plain = CliRunner().invoke(app, ["models", "openclip"]).stdout
    assert "openclip:ViT-B-32/laion2b_s34b_b79k" in plain
    assert "hf:google" not in plain


@pytest.mark.parametrize("model", KNOWN, ids=lambda model: model.spec)
def test_every_known_model_is_in_the_docs_as_it_is_known(model: object) -> None:
    row = next(one for one in KNOWN if one is model)
    assert f"| `{row.spec}` | {' | '.join(columns(row)[1:])} |" in DOCS.read_text("utf-8")


def test_every_known_model_has_a_family_and_open_clips_tags_exist() -> None:
    assert f"| {' | '.join(HEADER)} |" in DOCS.read_text("utf-8")
    tags = set(library("open_clip", "test").list_pretrained())
    for model in KNOWN:
        family, _, name = model.spec.partition(":")
        assert family in families()
        if family == "openclip":
            assert tuple(name.split("/")) in tags
    assert DETECTORS.keys() >= {"grounding-dino", "owlvit", "owlv2"}
