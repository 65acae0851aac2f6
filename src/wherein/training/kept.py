"""Where what was trained lies: beside the collection, in `kept/trained/NAME/`, a card and the numbers.

The card names its files, which say their own checksums, and is written last: what has no card was never finished, and
what had the name before serves until then. Card and numbers have copies (`wherein.copies`). While something is being
trained, what is done so far lies in `derived/training/NAME.DIGEST.npz`, the digest of settings and data, so that the
same training goes on from there; of a fine-tuning, in a folder of that name.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wherein import plugins
from wherein.copies import drop_guarded, write_guarded
from wherein.errors import InputError, SpecError, WhereinError, did_you_mean
from wherein.files import plain_files, write_durably
from wherein.sums import crc_name, says_its_sum, summed, sums_below
from wherein.values.method import DBA
from wherein.values.training import Card

Arrays = dict[str, npt.NDArray[Any]]
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_CARD: Final = "card.json"
_NUMBERS: Final = "numbers.npz"
MODEL: Final = "model"
"""The folder of a fine-tuned model in an archive; kept ones have the checksum of their list of files behind it."""
_FILES: Final = "files"
"""The entry of a kept card that names its files. Cards of older versions lack it: their files have the names below."""
_NAMED_BEFORE: Final = {"numbers": _NUMBERS, "model": MODEL}
_LARGEST: Final = 512 << 20
"""Bytes that an archive that is taken in may unpack to: a thousand labels of a large encoder are a hundredth of it."""


def check_name(name: str, encoder: str) -> None:
    """Refuse a name that cannot be written in a method, or that means something there already."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be a name: use up to 64 letters, digits, `-`, `_` and `.`, no spaces.")
    words = {DBA, *(word for kind in ("words", "steps", "kernels", "encoders") for word in plugins.table(kind))}
    if name in words or name == "dense" or _is_variant(encoder, name):
        raise InputError(f"{name!r} is taken: {encoder}:{name} means something already. Choose another name.")


def _is_variant(encoder: str, name: str) -> bool:
    """Whether the encoder has a variant of that name itself; families that read files have none without a path."""
    if ":" in encoder:
        return False
    from wherein.encoders import load

    try:
        load(f"{encoder}:{name}")
    except WhereinError:
        return False
    return True


def split_spec(spec: str) -> tuple[str, str]:
    """`hf:org/name:NAME` → (`hf:org/name`, `NAME`): a trained name stands after the last colon."""
    encoder, _, name = spec.rpartition(":")
    return encoder, name


@dataclass(frozen=True, slots=True)
class TrainedHere:
    """What was trained in one collection."""

    folder: Path
    """The collection's own folder."""

    @property
    def _home(self) -> Path:
        return self.folder / "kept" / "trained"

    def cards(self) -> list[Card]:
        """Everything that is finished, by name."""
        paths = sorted(self._home.glob(f"*/{_CARD}")) if self._home.is_dir() else []
        return [self._read(path)[0] for path in paths]

    def card(self, name: str) -> Card:
        """One card by its name; an unknown name is answered with the known ones."""
        return self._known(name)[0]

    def of_spec(self, spec: str) -> Card | None:
        """The card of `mini:NAME`; None where that is not trained here."""
        encoder, name = split_spec(spec)
        path = self._home / name / _CARD
        if not encoder or not _NAME.fullmatch(name) or not path.is_file():
            return None
        card, _ = self._read(path)
        return card if card.encoder == encoder else None

    def stamp(self, name: str) -> int:
        """Changes when that name is trained again."""
        return (self._home / name / _CARD).stat().st_mtime_ns

    def numbers(self, name: str) -> Arrays:
        """The arrays of what was trained."""
        _, files = self._known(name)
        return read_numbers(self._intact(name, files["numbers"]), said=f"{name} in {self._home}")

    def _intact(self, name: str, file: str) -> bytes:
        """The bytes of a file of what was trained; refused where they are not those that its name says."""
        path = self._home / name / file
        data = path.read_bytes()
        if not says_its_sum(path.name, data):
            raise InputError(f"{path}: is damaged. `wherein check -c {self.folder}` brings it back from its copy.")
        return data

    def model(self, name: str) -> Path:
        """The folder of a fine-tuned model."""
        return self._home / name / self._known(name)[1]["model"]

    def save(self, card: Card, numbers: Mapping[str, npt.NDArray[Any]], *, model: Path | None = None) -> None:
        """Keep what was trained; what had its name serves until all of it is written, and is then dropped."""
        folder, data = self._home / card.name, numbers_as_bytes(numbers)
        files = {"numbers": crc_name(data, ".npz")}
        self._guard(card.name, files["numbers"], data)
        if model is not None:
            listed = summed({_FILES: sums_below(model)})
            files["model"] = f"{MODEL}-{crc_name(listed, '')}"
            shutil.rmtree(folder / files["model"], ignore_errors=True)
            shutil.move(model, folder / files["model"])
            self._guard(card.name, f"{files['model']}.json", listed)
        document = card.to_dict() | {_FILES: files}
        self._guard(card.name, _CARD, json.dumps(document, ensure_ascii=False, indent=2).encode())
        self._drop_all_but(card.name, {_CARD, *files.values(), f"{files.get('model')}.json"})

    def remove(self, name: str) -> None:
        """Forget what was trained under a name."""
        self.card(name)
        drop_guarded(self.folder, f"kept/trained/{name}/{_CARD}")
        self._drop_all_but(name, set())
        (self._home / name).rmdir()

    def exported(self, name: str) -> bytes:
        """Everything that was trained under a name as one ZIP archive."""
        card, files = self._known(name)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_CARD, json.dumps(card.to_dict(), ensure_ascii=False, indent=2))
            archive.writestr(_NUMBERS, self._intact(name, files["numbers"]))
            model = self._home / name / files["model"]
            for path in plain_files(model) if card.kind == "full" else ():
                archive.write(path, f"{MODEL}/{path.relative_to(model).as_posix()}")
        return buffer.getvalue()

    def take_in(self, data: bytes, *, name: str | None = None) -> Card:
        """Take in what another collection exported: a head or an adapter, under its own name or another."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                if sum(one.file_size for one in archive.infolist()) > _LARGEST:
                    raise InputError("the archive unpacks to more than a head or an adapter needs: it is refused.")
                card = Card.from_dict(json.loads(archive.read(_CARD)))
                numbers = read_numbers(archive.read(_NUMBERS), said="the archive")
        except InputError:
            raise
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError, RecursionError) as error:
            raise InputError(f"this is no archive of something trained ({error}). Export it again.") from error
        if card.kind == "full":
            family = card.encoder.partition(":")[0]
            raise InputError(
                f"a fine-tuned model is used as a folder of its own: unpack it and name {family}:FOLDER/model as the "
                "encoder."
            )
        card = replace(card, name=name or card.name)
        check_name(card.name, card.encoder)
        self.save(card, numbers)
        return card

    def _known(self, name: str) -> tuple[Card, dict[str, str]]:
        """The card of a name, and its files; an unknown name is answered with the known ones."""
        path = self._home / name / _CARD
        if not _NAME.fullmatch(name) or not path.is_file():
            known = [card.name for card in self.cards()]
            there = f"there are: {', '.join(known)}" if known else "nothing is trained here yet"
            raise SpecError(f"nothing trained is called {name!r}; {there}.{did_you_mean(name, known)}")
        return self._read(path)

    def _guard(self, name: str, file: str, data: bytes) -> None:
        write_guarded(self.folder, f"kept/trained/{name}/{file}", data)

    def _drop_all_but(self, name: str, kept: set[str]) -> None:
        """Drop what an earlier training of the name left."""
        for path in list((self._home / name).iterdir()):
            if path.name in kept:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                drop_guarded(self.folder, f"kept/trained/{name}/{path.name}")

    @staticmethod
    def _read(path: Path) -> tuple[Card, dict[str, str]]:
        """A card, and the names of its files, which lie beside it."""
        try:
            document = json.loads(path.read_text("utf-8"))
            files = {**_NAMED_BEFORE, **document.pop(_FILES, {})}
            if any(Path(file).name != file for file in files.values()):
                raise ValueError("it names a file elsewhere")
            return Card.from_dict(document), files
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{path}: cannot be read ({error}). Remove its folder, and train it again.") from error


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a training is, kept on disk so that the same training goes on after it was stopped."""

    path: Path

    @classmethod
    def of(cls, collection: Path, name: str, *made_of: object) -> Checkpoint:
        """Of a training of that name, made of these settings and data: others have other checkpoints."""
        digest = hashlib.blake2b(digest_size=8)
        for one in made_of:
            digest.update(one.tobytes() if isinstance(one, np.ndarray) else repr(one).encode())
        return cls(collection / "derived" / "training" / f"{name}.{digest.hexdigest()}.npz")

    def read(self) -> Arrays | None:
        """What was done so far; None where nothing was."""
        try:
            return read_numbers(self.path.read_bytes(), said=str(self.path))
        except (OSError, InputError):
            return None

    def write(self, numbers: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep what is done so far."""
        write_durably(self.path, numbers_as_bytes(numbers))

    def clear(self) -> None:
        """Forget it, and what was left of older trainings of that name."""
        for old in self.path.parent.glob(f"{self.path.name.rpartition('.')[0].rpartition('.')[0]}.*.npz"):
            old.unlink(missing_ok=True)


def numbers_as_bytes(numbers: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Arrays as one file of NumPy's, without pickles."""
    buffer = io.BytesIO()
    np.savez(buffer, **dict(numbers))  # type: ignore[arg-type]
    return buffer.getvalue()


def read_numbers(data: bytes, *, said: str) -> Arrays:
    """The arrays of such a file; anything else is refused."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{said}: its numbers cannot be read ({error}). Train it again.") from error
