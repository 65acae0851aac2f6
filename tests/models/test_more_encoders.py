"""`naclip:`, `radio:`, `naradio:` and `openclip:` with tiny models: the contract, and the numbers worked out again."""

import json
import math
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from wherein.arrays import Floats, unit
from wherein.encoders import check_encoder, load
from wherein.encoders.hf.base import TorchEncoder
from wherein.encoders.hf.runtime import allow_remote_code, library, torch_for, transformers_for
from wherein.encoders.naclip import nearness
from wherein.encoders.openclip import SLIP, slip_weights
from wherein.errors import SpecError
from wherein.images.image import Image, Pixels, decode

Toy = Callable[[str], Path]


def torch_encoder(spec: str) -> TorchEncoder:
    made = load(spec)
    assert isinstance(made, TorchEncoder)
    return made


def pictures(*shapes: tuple[int, int]) -> list[Image]:
    random = np.random.default_rng(1)
    return [decode(random.integers(0, 256, (*shape, 3), dtype=np.uint8)) for shape in shapes]


def prepared(encoder: TorchEncoder, *shapes: tuple[int, int]) -> Pixels:
    return np.stack([encoder.prepare(image) for image in pictures(*shapes)])


def array(tensor: Any) -> Floats:
    return np.asarray(tensor.detach().float().numpy(), np.float32)


# --- neighbours ----------------------------------------------------------------------------------------


def test_nearness_is_a_gaussian_over_the_distance_of_patches() -> None:
    found = array(nearness((2, 3), 5.0))
    assert found.shape == (6, 6)
    assert found[0, 0] == 1.0
    assert found[0, 5] == pytest.approx(math.exp(-(1 + 4) / 50))  # one row down, two columns on


def test_neighbour_aware_patches_are_the_last_attention_by_keys_alone(toy: Toy) -> None:
    """The same worked out by hand: softmax(k kᵀ / √d + Gaussian) v of the last block, without shortcut and MLP."""
    encoder = torch_encoder(f"naclip:{toy('clip')}")
    check_encoder(encoder)
    torch, batch = torch_for("test"), prepared(encoder, (40, 60))
    network, states = encoder.network, list[Any]()
    last = network.vision_model.encoder.layers[-1]
    hook = last.register_forward_pre_hook(
        lambda _, given, named: states.append((*given, *named.values())[0]), with_kwargs=True
    )
    with torch.no_grad():
        network.vision_model(encoder.normalised(torch.from_numpy(batch)))
        hook.remove()
        x = last.layer_norm1(states[0])
        keys, values = (
            array(project(x))[0].reshape(17, 4, 8) for project in (last.self_attn.k_proj, last.self_attn.v_proj)
        )
        gathered = np.empty((17, 4, 8), np.float32)
        for head in range(4):
            logits = keys[:, head] @ keys[:, head].T / math.sqrt(8)
            for one in range(1, 17):
                for other in range(1, 17):
                    rows, columns = (one - 1) // 4 - (other - 1) // 4, (one - 1) % 4 - (other - 1) % 4
                    logits[one, other] += math.exp(-(rows**2 + columns**2) / 50)
            weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            gathered[:, head] = weights @ values[:, head]
        out = last.self_attn.out_proj(torch.from_numpy(gathered.reshape(1, 17, 32)))[:, 1:]
        expected = network.visual_projection(network.vision_model.post_layernorm(out))
    runs = list[int]()
    counted = last.register_forward_hook(lambda *_: runs.append(1))
    found = encoder.images(batch)
    counted.remove()
    assert len(runs) == 1  # the tower is not run a second time for its patches
    assert found.patches is not None
    np.testing.assert_allclose(found.patches.reshape(16, 24), unit(array(expected)[0]), atol=1e-4)


def test_texts_and_whole_images_of_naclip_are_clips(toy: Toy) -> None:
    plain, aware = (torch_encoder(f"{family}:{toy('clip')}") for family in ("hf", "naclip"))
    batch = prepared(plain, (40, 60), (90, 33))
    np.testing.assert_allclose(aware.images(batch).global_, plain.images(batch).global_, atol=1e-5)
    np.testing.assert_allclose(aware.texts(["a red tree"]), plain.texts(["a red tree"]), atol=1e-5)
    with pytest.raises(SpecError, match="is no CLIP but 'siglip'"):
        load(f"naclip:{toy('siglip')}")


# --- RADIO ---------------------------------------------------------------------------------------------


def test_radio_gives_its_summary_and_its_patches(toy: Toy) -> None:
    encoder = torch_encoder(f"radio:{toy('radio')}@32")
    check_encoder(encoder)
    assert (encoder.dim, encoder.dense_shape) == (64, (4, 4, 32))
    network = transformers_for("test").RadioModel.from_pretrained(toy("radio")).eval()
    batch = prepared(encoder, (40, 60))
    seen = network(torch_for("test").from_numpy(batch).permute(0, 3, 1, 2) / 255)
    found = encoder.images(batch)
    np.testing.assert_allclose(found.global_, unit(array(seen.summary)), atol=1e-4)
    assert found.dense is not None
    np.testing.assert_allclose(found.dense.reshape(1, 16, 32), unit(array(seen.features)), atol=1e-4)
    with pytest.raises(SpecError, match="reads no text"):
        encoder.texts(["red"])
    assert load(f"hf:{toy('radio')}@32").digest == encoder.digest


def test_naradio_changes_the_patches_and_not_the_summary(toy: Toy) -> None:
    plain, aware = (torch_encoder(f"{family}:{toy('radio')}@32") for family in ("radio", "naradio"))
    check_encoder(aware)
    batch = prepared(plain, (40, 60))
    ours, theirs = plain.images(batch), aware.images(batch)
    np.testing.assert_allclose(ours.global_, theirs.global_, atol=1e-5)
    assert ours.dense is not None
    assert theirs.dense is not None
    assert not np.allclose(ours.dense, theirs.dense, atol=1e-3)


OWN_PYTHON = """
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

class Config(PretrainedConfig):
    model_type = "own_radio"
    def __init__(self, patch_size=8, **more):
        super().__init__(**more)
        self.patch_size = patch_size

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads, self.qkv, self.proj = 2, nn.Linear(16, 48), nn.Linear(16, 16)
    def forward(self, x):
        q, k, v = self.qkv(x).reshape(len(x), -1, 3, 2, 8).permute(2, 0, 3, 1, 4)
        x = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
        return self.proj(x.transpose(1, 2).reshape(len(x), -1, 16))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = Attention()
    def forward(self, x):
        return x + self.attn(x)

class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(256, 12), nn.Linear(16, 12)
    def tokenizer(self, texts):
        rows = [list(text.encode()[:8]) for text in texts]
        return torch.tensor([row + [0] * (8 - len(row)) for row in rows])
    def encode_text(self, tokens, normalize=False):
        return self.words(tokens).mean(1)

class Model(PreTrainedModel):
    config_class = Config
    def __init__(self, config, adaptor_names=()):
        super().__init__(config)
        self.radio_model = nn.Module()
        self.radio_model.model = nn.Module()
        self.radio_model.model.blocks = nn.ModuleList([Block(), Block()])
        self.radio_model.patch = nn.Conv2d(3, 16, 8, 8)
        self.radio_model.adaptors = nn.ModuleDict({"siglip2-g": Language()})
        self.asked = adaptor_names
        self.post_init()
    def forward(self, x):
        x = self.radio_model.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([x.mean(1, keepdim=True), x], 1)
        for block in self.radio_model.model.blocks:
            x = block(x)
        return {name: (self.radio_model.adaptors[name].head(x[:, 0]), self.radio_model.adaptors[name].head(x[:, 1:]))
                for name in self.asked}
"""


@pytest.fixture
def own_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with Python of its own, laid out as RADIO's are: adaptors, blocks, summary and patches by name."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "own_radio"
    folder.mkdir()
    (folder / "own.py").write_text(OWN_PYTHON)
    made: dict[str, Any] = {}
    exec(OWN_PYTHON, made)  # the same classes, to write weights with
    torch_for("test").manual_seed(0)
    network = made["Model"](made["Config"]())
    for parameter in network.parameters():
        torch_for("test").nn.init.normal_(parameter, std=0.3)
    network.save_pretrained(folder)
    described = json.loads((folder / "config.json").read_text())
    described["auto_map"] = {"AutoConfig": "own.Config", "AutoModel": "own.Model"}
    (folder / "config.json").write_text(json.dumps(described))
    yield folder
    allow_remote_code(False)


def test_python_of_a_repository_runs_only_where_a_person_allowed_it(own_python: Path) -> None:
    with pytest.raises(SpecError, match="allow its code"):
        load(f"radio:{own_python}@32")
    allow_remote_code(True)
    encoder = load(f"radio:{own_python}@32")
    check_encoder(encoder)
    assert (encoder.dim, encoder.grid_hw, encoder.embeds_text) == (12, (4, 4), True)
    allow_remote_code(False)
    with pytest.raises(SpecError, match="allow its code"):
        load(f"naradio:{own_python}@32")


def test_naradio_replaces_the_last_attention_of_a_repositorys_own_tower(own_python: Path) -> None:
    allow_remote_code(True)
    plain, aware = (torch_encoder(f"{family}:{own_python}@32") for family in ("radio", "naradio"))
    check_encoder(aware)
    batch = prepared(plain, (40, 60))
    ours, theirs = plain.images(batch).patches, aware.images(batch).patches
    assert ours is not None
    assert theirs is not None
    assert not np.allclose(ours, theirs, atol=1e-3)


# --- open_clip -----------------------------------------------------------------------------------------


def test_open_clip_from_a_folder_gives_open_clips_numbers(toy: Toy) -> None:
    spec, open_clip = f"openclip:{toy('openclip')}", library("open_clip", "test")
    encoder = torch_encoder(spec)
    check_encoder(encoder)
    assert load(spec).digest == encoder.digest
    model, transform = open_clip.create_model_from_pretrained(f"local-dir:{toy('openclip')}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{toy('openclip')}")
    torch, images = torch_for("test"), pictures((40, 60), (90, 33))
    expected = torch.stack([transform(PIL.Image.fromarray(image.pixels)) for image in images])
    batch = prepared(encoder, (40, 60), (90, 33))
    np.testing.assert_allclose(array(encoder.normalised(torch.from_numpy(batch))), array(expected), atol=1e-3)
    np.testing.assert_allclose(encoder.images(batch).global_, unit(array(model.encode_image(expected))), atol=1e-4)
    asked = ["a red tree", "A dog."]
    np.testing.assert_allclose(encoder.texts(asked), unit(array(model.encode_text(tokenizer(asked)))), atol=1e-4)


def test_open_clips_patches_lie_where_the_image_has_them(toy: Toy) -> None:
    encoder = load(f"openclip:{toy('openclip')}")
    pixels = np.zeros((2, 32, 32, 3), np.uint8)
    pixels[1, 8:16, 16:24] = 255
    grids = encoder.images(pixels).patches
    assert grids is not None
    moved = np.linalg.norm(grids[1] - grids[0], axis=-1)
    assert np.unravel_index(moved.argmax(), moved.shape) == (1, 2)


def test_a_checkpoint_file_is_loaded_into_a_named_architecture(toy: Toy, tmp_path: Path) -> None:
    open_clip = library("open_clip", "test")
    described = json.loads((toy("openclip") / "open_clip_config.json").read_text())["model_cfg"]
    (tmp_path / "toy-arch.json").write_text(json.dumps(described))
    open_clip.add_model_config(tmp_path / "toy-arch.json")
    whole, named = (
        load(f"openclip:{toy('openclip')}"),
        f"openclip:toy-arch/{toy('openclip')}/open_clip_model.safetensors",
    )
    encoder = load(named)
    np.testing.assert_allclose(encoder.texts(["a red tree"]), whole.texts(["a red tree"]), atol=1e-5)


def test_a_checkpoint_in_slips_layout_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_clip, torch = library("open_clip", "test"), torch_for("test")
    shape = {"timm_model_name": "vit_tiny_patch16_224", "timm_pool": "token", "timm_proj": "linear", "image_size": 224}
    text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 1}
    monkeypatch.setitem(SLIP, "SLIP-toy", {"embed_dim": 24, "vision_cfg": shape, "text_cfg": text})
    torch.manual_seed(0)
    made = open_clip.CLIP(**SLIP["SLIP-toy"]).eval()
    theirs = {"module.image_mlp.layer.weight": torch.zeros(2)}
    for name, tensor in made.state_dict().items():
        if name == "visual.head.proj.weight":
            theirs["module.image_projection"] = tensor.T.contiguous()
        else:
            theirs[f"module.{name.replace('visual.trunk.', 'visual.')}"] = tensor
    torch.save({"epoch": 25, "state_dict": theirs}, tmp_path / "slip.pt")
    encoder = torch_encoder(f"openclip:SLIP-toy/{tmp_path}/slip.pt")
    batch = prepared(encoder, (40, 60))
    expected = made.encode_image(encoder.normalised(torch.from_numpy(batch)))
    np.testing.assert_allclose(encoder.images(batch).global_, unit(array(expected)), atol=1e-4)
    assert slip_weights({"image_mlp.x": 1, "logit_scale": 2}) == {"logit_scale": 2}


def test_a_pickle_that_is_more_than_tensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evil.pt"
    path.write_bytes(pickle.dumps({"state_dict": print}))
    with pytest.raises(SpecError, match="cannot be loaded"):
        load(f"openclip:ViT-S-32-alt/{path}").texts(["red"])


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param("openclip:", "write openclip:ARCH/PRETRAINED", id="nothing"),
        pytest.param("openclip:ViT-B-32", "write openclip:ARCH/PRETRAINED", id="no weights"),
        pytest.param("openclip:ViT-Z-99/x", "no architecture is called 'ViT-Z-99'", id="no such architecture"),
        pytest.param("openclip:ViT-B-32/nope", "known: .*laion2b_s34b_b79k", id="no such weights"),
        pytest.param("openclip:ViT-B-32//nowhere/x.pt", "is neither a file", id="no such file"),
    ],
)
def test_a_name_that_open_clip_does_not_know_is_answered_with_what_it_knows(spec: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        load(spec)
