"""A collection of mini's last edition: its layer stays and serves, and indexing again adds the new one beside it."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import wherein
from wherein.demo import PHOTOS
from wherein.encoders import mini
from wherein.errors import CollectionCorrupt


def another_edition(folder: Path) -> Path:
    """The weights with other hubs: another digest, and other embeddings."""
    shutil.copytree(mini.WEIGHTS, folder)
    with np.load(folder / "hubs.npz") as stored:
        parts = {name: stored[name] for name in stored.files}
    np.savez(folder / "hubs.npz", **(parts | {"mean": parts["mean"] + np.float32(0.05)}))
    return folder


def layer_names(folder: Path) -> set[str]:
    return {path.name for path in (folder / ".wherein" / "shards").iterdir()}


def test_a_new_edition_is_indexed_beside_the_old_one_which_goes_on_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = sorted(PHOTOS.glob("*.jpg"))[:6]
    older = another_edition(tmp_path / "older")
    with monkeypatch.context() as patched:
        patched.setattr(mini, "WEIGHTS", older)
        serving = wherein.open(tmp_path / "kept", create=True)
        serving.add(*photos)
        before = serving.search("a dog", k=6)
    with wherein.open(tmp_path / "kept") as upgraded:
        old_layers = layer_names(tmp_path / "kept")
        with pytest.raises(CollectionCorrupt, match=r"other weights.*Run `wherein index`"):
            upgraded.search("a dog")
        upgraded.add(*photos)
        after = upgraded.search("a dog", k=6)
        layers = layer_names(tmp_path / "kept")
    assert old_layers < layers
    assert len(layers) == 2 * len(old_layers) - 1, "every layer but the thumbnails is made anew"
    still = serving.search("a dog", k=6)
    serving.close()
    assert [(hit.image_id, hit.score) for hit in still] == [(hit.image_id, hit.score) for hit in before]
    assert {hit.image_id for hit in after} == {hit.image_id for hit in before}
    assert [hit.score for hit in after] != [hit.score for hit in before]
