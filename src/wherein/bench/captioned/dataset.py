"""Captions as they are published: Karpathy's `dataset_{coco,flickr30k}.json`, Crossmodal-3600's lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wherein.bench.readers import field_of, read_json, read_ndjson, require_file
from wherein.errors import DataError, SpecError

SPLITS: Final = ("test", "val", "train")
RESTVAL: Final = "restval"
"""Karpathy's name for validation images of COCO that are used to train."""

PER_IMAGE: Final = 5
"""Captions of an image that count in COCO and Flickr30k: published figures take five; some images of COCO have six."""

LANGUAGES: Final = (
    "ar", "bn", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fil", "fr", "he", "hi", "hr", "hu", "id", "it", "ja",
    "ko", "mi", "nl", "no", "pl", "pt", "quz", "ro", "ru", "sv", "sw", "te", "th", "tr", "uk", "vi", "zh",
)  # fmt: skip
OLDER: Final = {"he": "iw"}
"""A language's code → the older one that some copies of the captions use."""

FOLDERS: Final = (".", "images", "flickr30k-images", "flickr30k_images", "coco")
CAPTION_FILES: Final = ("captions.jsonl", "xm3600/captions.jsonl", "web_captions.jsonl")


@dataclass(frozen=True)
class Captioned:
    """Images by their id, and (image_id, text) of every caption, in the order of the file."""

    images: dict[str, Path]
    captions: tuple[tuple[str, str], ...]


def load_karpathy(root: Path, *, name: str, split: str) -> Captioned:
    """A split of `dataset_<name>.json`; COCO's images lie in val2014/ and train2014/, Flickr30k's in one folder."""
    if split not in SPLITS:
        raise SpecError(f"--split {split} is none of {', '.join(SPLITS)}")
    places = [root / f"dataset_{name}.json", root / "karpathy" / f"dataset_{name}.json"]
    path = next((place for place in places if place.is_file()), places[0])
    require_file(path, what=f"Karpathy's split of {name}", hint="it comes with his caption_datasets archive")
    document = read_json(path)
    records = document.get("images") if isinstance(document, dict) else None
    if not isinstance(records, list):
        raise DataError(f'{path}: {{"images": […]}} is needed at the top')
    wanted = (split, RESTVAL) if split == "train" else (split,)
    images: dict[str, Path] = {}
    captions: list[tuple[str, str]] = []
    for number, record in enumerate(records):
        where = f"{path}, image {number}"
        if not isinstance(record, dict):
            raise DataError(f"{where}: an object is needed")
        if record.get("split") not in wanted:
            continue
        image_id = "/".join(
            filter(None, (str(record.get("filepath", "")), field_of(record, "filename", str, where=where)))
        )
        images[image_id] = image_file(root, image_id)
        texts = [_raw(one, where=where) for one in field_of(record, "sentences", list, where=where)]
        captions += [(image_id, text) for text in texts[:PER_IMAGE]]
    if not images:
        raise DataError(f"{path} has no image of the {split} split")
    return Captioned(images, tuple(captions))


def _raw(sentence: Any, *, where: str) -> str:
    if not isinstance(sentence, dict):
        raise DataError(f"{where}: a sentence is an object with its text under raw")
    text: str = field_of(sentence, "raw", str, where=where)
    return text


def load_crossmodal(root: Path, *, language: str, only_first: bool = False) -> Captioned:
    """The captions of one language, or the first of each image alone; images are KEY.jpg in images/."""
    if language not in LANGUAGES:
        raise SpecError(f"--language {language} is none of {', '.join(LANGUAGES)}, all")
    places = [root / name for name in CAPTION_FILES]
    path = next((place for place in places if place.is_file()), places[0])
    require_file(path, what="Crossmodal-3600's captions", hint="unpack its captions.zip there")
    images: dict[str, Path] = {}
    captions: list[tuple[str, str]] = []
    for number, record in read_ndjson(path):
        where = f"{path}, line {number}"
        image_id = f"{field_of(record, 'image/key', str, where=where)}.jpg"
        images[image_id] = image_file(root, image_id)
        spoken = record.get(language, record.get(OLDER.get(language, "")))
        texts = spoken.get("caption") if isinstance(spoken, dict) else None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError(f'{where}: {{"{language}": {{"caption": […]}}}} is needed')
        captions += [(image_id, text) for text in (texts[:1] if only_first else texts)]
    if not captions:
        raise DataError(f"{path} has no caption in {language}")
    return Captioned(images, tuple(captions))


def image_file(root: Path, name: str) -> Path:
    """Where an image lies: below the folder itself or one of the names its archive is unpacked to."""
    found: Sequence[Path] = [root / folder / name for folder in FOLDERS]
    return next((path for path in found if path.is_file()), found[0])
