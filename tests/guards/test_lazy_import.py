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


def test_the_client_loads_no_engine() -> None:
    found = loaded("import wherein.client")
    assert found & (HEAVY - {"numpy", "PIL"}) == set()


def test_the_client_loads_only_values_and_what_reads_images() -> None:
    program = "import sys, wherein.client; print(*(name for name in sys.modules if name.startswith('wherein.')))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    light = {"arrays", "client", "client_learning", "door", "errors", "files", "images", "options", "plugins", "values"}
    assert {name.split(".")[1] for name in told.split()} == light


MAY_NAME_TORCH = (
    "encoders/hf/",
    "encoders/naclip.py",
    "encoders/openclip.py",
    "encoders/radio.py",
    "encoders/export.py",
    "training/graphs.py",
)
"""Where models of torch are run; each loads it only when a model is asked for."""


def test_no_other_module_reaches_for_torch() -> None:
    home = Path(wherein.__file__ or "").parent
    named = {path.relative_to(home).as_posix(): path.read_text() for path in home.rglob("*.py")}
    reaching = [name for name, text in named.items() if "import torch" in text or "from torch" in text]
    assert [name for name in reaching if not name.startswith(MAY_NAME_TORCH)] == []


def test_describing_the_families_loads_no_library_of_models() -> None:
    found = loaded("import wherein.encoders; wherein.encoders.describe_families()")
    assert found & {"torch", "transformers", "open_clip", "huggingface_hub"} == set()


def test_a_search_by_text_loads_nothing_for_pictures_or_indexing(folder: Path, collection: wherein.Collection) -> None:
    collection.add(folder)
    heavy = ("cv2", "wherein.indexing.sync")
    program = f"import sys, wherein; wherein.open({str(collection.folder)!r}).search('red'); "
    program += f"print(*(name for name in {heavy} if name in sys.modules))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.split() == []
