"""Every export keeps the public contract, and the check itself can fail."""

from pathlib import Path

import pytest

from wherein import plugins
from wherein.errors import SpecError
from wherein.output.contract import check_export


@pytest.mark.parametrize("kind", plugins.table("exports"))
def test_every_export_keeps_the_contract(kind: str, tmp_path: Path) -> None:
    check_export(kind, tmp_path)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [("", "wrote nothing the first time"), ("same", "writes no more of six hits than of none")],
    ids=["one that writes nothing", "one that ignores the hits"],
)
def test_a_broken_export_is_told_why(
    written: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_ranking: object, path: Path, **_: object) -> None:
        if written:
            path.write_text(written)

    monkeypatch.setattr(plugins, "load", lambda *_: write)
    with pytest.raises(SpecError, match=f"export 'coco' breaks the contract: it {complaint}"):
        check_export("coco", tmp_path)
