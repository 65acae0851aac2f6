"""The table of systems names every system of the papers, and every method in it can be read."""

import re
from pathlib import Path

import pytest

from wherein.values.method import Method

TABLE = (Path(__file__).parents[1] / "docs" / "systems.md").read_text("utf-8").partition("## Forms")[0]
SYSTEMS = [
    "CLIP",
    "OpenCLIP",
    "SigLIP 2",
    "BLIP",
    "BLIP-2",
    "MetaCLIP 2",
    "RADIO",
    "NACLIP",
    "NARADIO",
    "SLIP",
    "DINO",
    "DINOv2",
    "DiHT",
    "Grounding DINO",
    "OWL-ViT",
    "FIRe",
    "HOW",
    "DELF",
    "DELG",
    "R-ASMK",
    "D2R",
    "SSP",
    "HSNet",
    "Mining",
    "GLU-Net",
    "GOCor",
    "PDC-Net",
    "WarpC",
    "RANSAC-Flow",
    "OS2D",
    "SIFT",
    "LoFTR",
    "SuperPoint",
    "LightGlue",
    "SAM",
]
ROWS = [line.split(" | ") for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| system")]
WRITTEN = [word for row in ROWS for word in re.findall(r"`([^`]+)`", row[2]) if not word.startswith("--")]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_of_the_papers_has_its_row(system: str) -> None:
    named = {name.strip() for row in ROWS for name in row[0].removeprefix("| ").split(",")}
    assert system in named


@pytest.mark.parametrize("spec", WRITTEN)
def test_every_method_in_the_table_can_be_read(spec: str) -> None:
    assert str(Method.parse(spec)) == spec
