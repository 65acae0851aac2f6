"""Whether every file of a collection holds what was written, and what is done where one does not.

Damaged rows are set aside, and only they; the file they were in stays in `quarantine/`. What can be made again from an
image that is still there is marked to be read again in the same commit, so that a check that is killed loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

from wherein.copies import drop_guarded, mend_guarded, quarantine
from wherein.errors import CollectionError, UnreadableImage
from wherein.store import rewriting
from wherein.store.catalogue_copies import damaged_copies, is_as_noted
from wherein.store.seals import Seal, rescue
from wherein.store.shards import Written, intact, is_whole
from wherein.sums import is_as_it_says, sums_below
from wherein.values.records import CheckReport

if TYPE_CHECKING:
    from wherein.store.store import Store

_LOOKS: Final = 3
"""How often a catalogue is looked at before it is called damaged: others may commit between two looks."""


def check(store: Store, *, repair: bool) -> CheckReport:
    """Verify the bytes of every file, and that no image has rows twice; what is wrong is mended where asked."""
    catalogue, notes, lost = store.catalogue, list[str](), list[str]()
    guarded = mend_guarded(store.folder, repair=repair)
    if repair:
        store.refresh()
    shards, doubled, flaws = catalogue.shards(), catalogue.doubled(), catalogue_flaws(store)
    damaged = [one for one in shards if not intact(store.path_of(one[1], one[0]), one[2])]
    damaged = [one for one in damaged if catalogue.has_shard(one[0])]  # others may have been compacted away meanwhile
    broken = [store.path_of(layer, shard) for shard, layer, _ in damaged]
    broken += [store.folder / "catalogue.sqlite"] if flaws else []
    notes += [f"the catalogue is damaged ({flaws[0]}): `wherein check` rebuilds it"] if flaws else []
    broken += [path for path, _ in guarded]
    notes += [f"{path.relative_to(store.folder).as_posix()}: {said}" for path, said in guarded]
    derived = _damaged_derived(store.folder / "derived")
    spare, models = damaged_copies(store.folder), _damaged_models(store.folder / "kept" / "trained")
    broken += derived + spare + models
    if repair:
        if doubled:
            with catalogue.transaction():
                catalogue.drop_doubles(doubled)
        for one in damaged:
            lost += _set_aside(store, *one)
        for path in (*derived, *spare):  # they are made again when they are needed
            path.unlink(missing_ok=True)
        for model in models:  # without its card it serves no more
            quarantine(store.folder, model.parent / "card.json")
            drop_guarded(store.folder, f"kept/trained/{model.parent.name}/card.json")
        if damaged:
            store.sweep()
    notes += [f"{len(derived)} files of derived/ were damaged and are made again when needed"] if derived else []
    notes += [f"{len(spare)} copies of the catalogue were damaged"] if spare else []
    notes += [f"the model trained as {model.parent.name} is damaged: train it again" for model in models]
    return CheckReport(
        len(shards), tuple(broken), catalogue.unfinished(), len(doubled), tuple(sorted(set(lost))), tuple(notes)
    )


def catalogue_flaws(store: Store) -> list[str]:
    """What is wrong with the catalogue; nothing is mended here, because others have it open."""
    try:
        found = store.catalogue.flaws()
        looks = (is_as_noted(store.folder, store.catalogue.changes()) for _ in range(_LOOKS))
        if not found and not any(looks):
            found = ["its bytes are not those that were written"]
    except CollectionError as error:
        found = [str(error)]
    return found


def _set_aside(store: Store, shard: int, layer: str, written: Written) -> list[str]:
    """Take the damaged rows of a shard out of use, and the others into a new one. Returns the ids of images
    whose damaged rows nothing can make again.
    """
    catalogue, path = store.catalogue, store.path_of(layer, shard)
    sound = rescue(path, rows=written.rows, blobs=rewriting.is_blobs(store, layer)).rows
    used = [place for place in catalogue.used_rows(layer) if place[0] == shard]
    bad = [place for place in used if place[1] not in sound]
    quarantine(store.folder, path)
    good = {place: sound[place[1]] for place in used if place[1] in sound}
    if good:
        rewriting.place(store, layer, catalogue.next_shard(), good)
    again, lost = _sources(store, bad)
    with catalogue.transaction():
        catalogue.unfinish(again)
        catalogue.drop_rows(bad)
        catalogue.drop_empty_shards(layer)
    return lost


def _sources(store: Store, bad: Sequence[tuple[int, int]]) -> tuple[set[int], list[str]]:
    """(files from which damaged rows can be made again, ids of images whose rows cannot)."""
    there, lost = dict[int, bool](), list[str]()
    for shard, row in bad:
        for image, _ in store.catalogue.images_at(shard, row):
            file = store.catalogue.file_of(image)
            if file not in there:
                there[file] = _is_there(store, image)
            if not there[file]:
                lost.append(store.catalogue.describe(image)[0].image_id)
    return {file for file, is_there in there.items() if is_there}, lost


def _is_there(store: Store, image: int) -> bool:
    """Whether the file of an image is as it was indexed."""
    try:
        original = store.original(image)
        if original is None:
            return False
        original.open().close()
    except (UnreadableImage, KeyError):  # gone, changed, or of a root that was forgotten
        return False
    return True


def _damaged_derived(folder: Path) -> list[Path]:
    """The files below derived/ that are not what their seal, their name or their checksum says was written."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if not (_as_sealed(path) if path.suffix == ".npy" else is_as_it_says(path))]


def _damaged_models(folder: Path) -> list[Path]:
    """The folders of fine-tuned models, each beside its card, whose files are not those that were written."""
    lists = [path for path in sorted(folder.glob("*/model-*.json")) if (path.parent / "card.json").is_file()]
    return [path.with_suffix("") for path in lists if not _as_listed(path)]


def _as_listed(path: Path) -> bool:
    try:
        said = json.loads(path.read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return True  # the list itself is damaged: its copy tells
    return bool(sums_below(path.with_suffix("")) == said)


def _as_sealed(path: Path) -> bool:
    """Whether an array's file is what its seal says; one of an older version has none, and is only seen to be whole."""
    try:
        seal = Seal.read(path)
        if seal is None:
            return is_whole(path)
        left, crc = seal.data_bytes, 0
        with path.open("rb") as file:
            while left and (piece := file.read(min(left, 1 << 20))):
                crc, left = crc32(piece, crc), left - len(piece)
        return seal.sound and not left and crc == seal.data_crc
    except FileNotFoundError:
        return True  # another process dropped it meanwhile
    except OSError:
        return False
