"""Where a model's files are: a folder, or a snapshot of the hub in its cache; and a digest that costs no full read."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from wherein.encoders.hf.runtime import library, remote_code_allowed, require_libraries, transformers_for
from wherein.errors import SpecError
from wherein.files import expanded

FILES: Final = ("*.json", "*.txt", "*.model", "*.safetensors")
"""What is fetched of a repository: configurations, vocabularies, weights; no pickles, and code only where allowed."""
_SAMPLE: Final = 256
"""Bytes of each tensor that enter the digest, at its beginning and in its middle."""


@dataclass(frozen=True, slots=True)
class Named:
    """A model's name as it was written, taken apart."""

    name: str
    revision: str | None = None
    side: int | None = None
    """The input size that was asked for instead of the model's own."""
    squash: bool = False


def parse_name(variant: str) -> Named:
    """Read `NAME[@REVISION][@SIZE][@squash]`."""
    name, *words = variant.split("@")
    if not name:
        raise SpecError("hf: names no model; write hf:google/siglip2-base-patch16-224 or hf:FOLDER.")
    sides = [word for word in words if word.isdigit()]
    revisions = [word for word in words if not word.isdigit() and word != "squash"]
    if len(sides) > 1 or len(revisions) > 1 or "" in words:
        raise SpecError(f"hf:{variant}: give one size and one revision at most, as hf:NAME@REVISION@448.")
    return Named(name, next(iter(revisions), None), int(sides[0]) if sides else None, "squash" in words)


class HubModel:
    """One model's files, its settings, and how its parts are loaded from them, strictly and without pickles."""

    def __init__(self, spec: str, named: Named) -> None:
        self.spec, self.named = spec, named
        require_libraries(spec)  # before anything is fetched
        self.folder = find_folder(named, spec)
        self.config: dict[str, Any] = _read(self.folder / "config.json", spec)

    @cached_property
    def digest(self) -> str:
        """A digest of the settings and of a sample of every tensor: other weights give another one."""
        digest = hashlib.blake2b(f"1 {self.named.side} {self.named.squash}".encode(), digest_size=16)
        for path in sorted(self.folder.iterdir()):
            if path.suffix == ".safetensors":
                digest.update(path.name.encode() + sample_weights(path))
            elif path.suffix in (".json", ".txt", ".model", ".py"):
                digest.update(path.name.encode() + hashlib.blake2b(path.read_bytes()).digest())
        return digest.hexdigest()

    @cached_property
    def settings(self) -> Any:
        """The model's configuration, as transformers reads it."""
        transformers = transformers_for(self.spec)
        return transformers.AutoConfig.from_pretrained(self.folder, trust_remote_code=remote_code_allowed())

    @cached_property
    def image_processor(self) -> Any:
        """What the model's own preprocessing is made by; Pillow's resizing, as in training, on every machine."""
        transformers = transformers_for(self.spec)
        try:
            return transformers.AutoImageProcessor.from_pretrained(self.folder, backend="pil")
        except (OSError, ValueError) as error:
            raise SpecError(f"{self.spec}: {self.folder} has no usable preprocessor_config.json ({error}).") from error

    @cached_property
    def tokenizer(self) -> Any:
        """The model's own tokenizer."""
        transformers = transformers_for(self.spec)
        try:
            return transformers.AutoTokenizer.from_pretrained(self.folder)
        except (OSError, ValueError) as error:
            raise SpecError(f"{self.spec}: {self.folder} has no usable tokenizer ({error}).") from error

    def load(self, class_name: str, **options: Any) -> Any:
        """The network of a class of transformers, on the CPU, for inference; a weight that is missing is refused."""
        made = getattr(transformers_for(self.spec), class_name)
        try:
            network, told = made.from_pretrained(
                self.folder, use_safetensors=True, output_loading_info=True, local_files_only=True, **options
            )
        except Exception as error:  # safetensors and torch each have classes of their own for broken files
            raise SpecError(f"{self.spec}: its weights cannot be loaded ({_short(error)}).") from error
        if told["missing_keys"]:
            some = ", ".join(sorted(told["missing_keys"])[:3])
            raise SpecError(f"{self.spec}: its weights lack {len(told['missing_keys'])} tensors ({some} …).")
        return network.eval()


def find_folder(named: Named, spec: str) -> Path:
    """The folder of a model: the one named, or its snapshot in the hub's cache, fetched where that is allowed."""
    folder = expanded(named.name)
    if folder.is_dir():
        return folder
    if named.name.startswith((".", "~", "/")) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", named.name):
        raise SpecError(f"{spec}: {folder} is no folder. Give one that `save_pretrained` wrote, or a name of the hub.")
    hub = library("huggingface_hub", spec)
    try:
        found = hub.snapshot_download(
            named.name,
            revision=named.revision,
            allow_patterns=[*FILES, *(["*.py"] if remote_code_allowed() else [])],
            ignore_patterns=["*/*"],
        )
    except Exception as error:  # the hub has two dozen classes of errors; each means that the model is not here
        raise SpecError(unreachable(named.name, hub.constants.HF_HUB_CACHE, error)) from error
    return Path(found)


def unreachable(name: str, cache: str, error: Exception) -> str:
    """What a person is told whose model is neither in the cache nor to be had."""
    return (
        f"hf:{name}: is not in the cache {cache}, and the hub did not give it "
        f"({type(error).__name__}: {_short(error)}). "
        f"On a machine that reaches the hub run `hf download {name}`, and copy its folder "
        f"models--{name.replace('/', '--')} into that cache; or copy the model's files into a folder and write "
        "hf:FOLDER. The encoder mini needs no download."
    )


def sample_weights(path: Path) -> bytes:
    """A digest of a safetensors file: its header, and the first and the middle bytes of every tensor."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = file.read(length)
            digest.update(header)
            tensors = {name: one for name, one in json.loads(header).items() if name != "__metadata__"}
            for _, one in sorted(tensors.items()):
                start, end = one["data_offsets"]
                for offset in (start, (start + end) // 2):
                    file.seek(8 + length + offset)
                    digest.update(file.read(min(_SAMPLE, end - offset)))
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise SpecError(f"{path}: is not a safetensors file ({_short(error)}). Download it again.") from error
    return digest.digest()


def _read(path: Path, spec: str) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(
            f"{spec}: {path} cannot be read ({_short(error)}). It is written by `save_pretrained`."
        ) from error
    return values


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
