"""The embedded encoder: EfficientNet-Lite2 and MiniLM, trained together; `mini` needs nothing but this package.

One forward pass over the squashed 256×256 image gives its embedding, 16×16 patch embeddings in the same space as
texts, and a 32×32 mid-level map for instances and outlines. How it was trained: `training/README.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.encoders import Encoded
from wherein.encoders.digest import files_digest
from wherein.encoders.hubs import Hubs, kinds_of
from wherein.encoders.onnx import session
from wherein.encoders.reading import Spellings, first_words, in_english, mended, unframed
from wherein.encoders.words import Lexicon
from wherein.errors import SpecError
from wherein.files import expanded
from wherein.images.image import Image, Pixels

WEIGHTS: Final = Path(__file__).parent / "weights" / "mini"
FILES: Final = ("image.onnx", "text.onnx", "patch_basis.npy", "tokenizer.json", "hubs.npz")
KNOWN_WORDS: Final = "words.npy"
"""Hashes of the words it was trained on; they change no embedding, so they are no part of the digest."""
VARIANTS: Final = ("", "dense")
MAX_TOKENS: Final = 64
"""The longest text that the text tower was trained with, in tokens."""


class MiniEncoder:
    """Images and texts in one 512-dimensional space; `mini:dense` names the same weights, `mini:FOLDER` others."""

    dim: int = 512
    input_hw: tuple[int, int] = (256, 256)
    grid_hw: tuple[int, int] | None = (16, 16)
    dense_shape: tuple[int, int, int] | None = (32, 32, 64)
    embeds_text: bool = True
    device: str = "cpu"
    batch: int = 1
    vectors: int = 1

    def __init__(self, variant: str = "", *, threads: int = 1) -> None:
        elsewhere = variant not in VARIANTS
        if elsewhere and len(Path(variant).parts) < 2:
            raise SpecError(
                f"mini has no variant {variant!r}; known: mini, mini:dense, what was trained on it in the collection, "
                "and mini:FOLDER, where FOLDER is the `model` of one that was fine-tuned."
            )
        self.weights = expanded(variant) if elsewhere else WEIGHTS
        """The folder of its files."""
        missing = [name for name in (*FILES, KNOWN_WORDS) if not (self.weights / name).is_file()]
        if missing:
            way_out = f"{self.weights} holds no fine-tuned mini" if elsewhere else "Reinstall wherein"
            raise SpecError(f"mini's weights are incomplete ({', '.join(missing)} not there). {way_out}.")
        self.spec = f"mini:{variant}" if variant else "mini"
        self._threads = threads

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the weight files."""
        return files_digest(self.weights / name for name in FILES)

    @cached_property
    def patch_basis(self) -> Floats | None:
        """(512, 64) orthonormal columns: the directions in which patches differ most."""
        return np.asarray(np.load(self.weights / "patch_basis.npy", allow_pickle=False), np.float32)

    def prepare(self, image: Image) -> Pixels:
        """The image squashed to 256×256."""
        height, width = self.input_hw
        return image.resized((width, height))

    def images(self, batch: Pixels) -> Encoded:
        """Embed prepared images, uint8 (n, 256, 256, 3).

        They run one at a time: the maps of one image fit the processor's cache, those of a batch do not.
        """
        if len(batch) == 0:
            gh, gw = self.grid_hw or (0, 0)
            empty = (np.zeros((0, *shape), np.float32) for shape in ((self.dim,), (gh, gw, self.dim), (32, 32, 64)))
            return Encoded(*empty)
        runs = [self._image.run(None, {"pixels": batch[i : i + 1]}) for i in range(len(batch))]
        global_, patches, dense = (np.concatenate(parts) for parts in zip(*runs, strict=True))
        return Encoded(self.hubs.level_images(global_), self.hubs.free(patches), dense)

    def texts(self, texts: Sequence[str]) -> Floats:
        """Embed texts, a bare noun or a sentence: (n, 512); `a photo of a …` counts as what the photo shows."""
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        found = np.asarray(self._text.run(None, self.tokenized(texts))[0], np.float32)
        return self.hubs.level_texts(found, kinds_of(texts))

    def tokenized(self, texts: Sequence[str]) -> dict[str, npt.NDArray[np.int64]]:
        """What the text tower reads of texts, by the name of its input, each (n, tokens)."""
        encodings = self._tokenizer.encode_batch([unframed(text) for text in texts])
        return {
            "input_ids": np.array([row.ids for row in encodings], np.int64),
            "attention_mask": np.array([row.attention_mask for row in encodings], np.int64),
        }

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """The words of a text that neither its tokenizer nor its training can have taught it; of those it embeds."""
        return self._lexicon.unknown(self._embedded(text))

    def word_ranks(self, text: str) -> tuple[int, ...]:
        """The place of each word that it embeds in the order of how common words are; letters in no list come last."""
        return self._lexicon.ranks(self._embedded(text))

    def _embedded(self, text: str) -> str:
        """The words of a text that it embeds, normalised."""
        embedded, _ = first_words(text, MAX_TOKENS)
        return str(self._tokenizer.normalizer.normalize_str(embedded))

    def read(self, text: str) -> str:
        """A text of another language in English, and misspelled words mended; what it does not embed stays as it is."""
        lexicon = self._lexicon
        embedded, rest = first_words(text, MAX_TOKENS)
        english = in_english(embedded, taught=lexicon.taught)
        words, right, listed, taught = self._spellings, lexicon.right, lexicon.listed, lexicon.taught
        return mended(english, words=words, right=right, listed=listed, taught=taught) + rest

    @cached_property
    def _lexicon(self) -> Lexicon:
        tokens = self._tokenizer.get_vocab()
        return Lexicon(sorted(tokens, key=tokens.__getitem__), self.weights / KNOWN_WORDS)

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self._lexicon.places)

    @cached_property
    def hubs(self) -> Hubs:
        """What levels images that lie near every text."""
        return Hubs.read(self.weights / "hubs.npz")

    @cached_property
    def _image(self) -> Any:
        return session(self.weights / "image.onnx", threads=self._threads)

    @cached_property
    def _text(self) -> Any:
        return session(self.weights / "text.onnx", threads=self._threads)

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.weights / "tokenizer.json"))
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.enable_padding()
        return tokenizer
