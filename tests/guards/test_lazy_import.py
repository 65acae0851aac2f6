"""Importing is free: a fresh interpreter shows what each import really loads."""

import subprocess
import sys
from pathlib import Path

import wherein

LOADED = "import sys; before = set(sys.modules); {statement}; sys.stdout.write('\\n'.join(set(sys.modules) - before))"
HEAVY = {"numpy", "PIL", "faiss", "onnxruntime", "cv2", "tokenizers", "torch", "av", "scipy", "fastapi", "sqlite3"}


def loaded(statement: str) -> set[str]:
    """The top-level names that a statement brings in."""
    program = LOADED.format(statement=statement)
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return {name.partition(".")[0] for name in told.splitlines()}


def test_the_instrument_sees_what_is_imported() -> None:
    assert {"wherein", "numpy", "PIL"} <= loaded("import wherein.images.image")


def test_import_wherein_loads_nothing_but_itself_and_the_standard_library() -> None:
    assert loaded("import wherein") - set(sys.stdlib_module_names) == {"wherein"}


def test_import_of_the_command_loads_nothing_heavy() -> None:
    assert loaded("import wherein.cli") & HEAVY == set()


def test_finding_the_encoder_families_loads_none() -> None:
    found = loaded("import wherein.encoders; wherein.encoders.families()")
    assert found & (HEAVY - {"numpy"}) == set()


def test_no_module_reaches_for_torch() -> None:
    sources = Path(wherein.__file__ or "").parent.rglob("*.py")
    lines = {f"{path.name}: {line.strip()}" for path in sources for line in path.read_text().splitlines()}
    assert [line for line in lines if "import torch" in line and "/hf" not in line] == []
