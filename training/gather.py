"""Pictures of a public repository, packed as training pairs; what is near pictures held back is left out first.

    git clone --bare …                                    # a repository of pictures, here as REPOSITORY
    python gather.py --repository REPOSITORY --texts TEXTS.jsonl --source coco_more --held-back held_back.txt \\
        --eval EVAL --data DATA

Each line of TEXTS.jsonl is `{"path": …, "texts": […]}`, or `{"path": …, "label": "a name"}` of a photograph of a thing:
`path` is where the picture lies in the repository. A picture is left out whose difference hash (`near_held_back.py`)
differs by at most five bits from one in `held_back.txt`, which is one bit more than that script allows, or by at most
six from a picture of the development sets or of those that training holds back here. The others go into
`DATA/SOURCE-00.zip` and on, squashed to 256×256, and their lines onto `DATA/captions-extra.jsonl`.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from data import ADDED_LATER, SIDE, Row
from proxies import held_back

Hashes = NDArray[np.uint64]
# How many bits may differ from a picture held back elsewhere, and from one that is measured on here.
ELSEWHERE, HERE = 5, 6
# An archive travels to the accelerator beside another; a picture takes about 4 kB so.
ARCHIVE_BYTES, QUALITY, SPEED = 28_000_000, 38, 9
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".avif")


def difference_hash(picture: Image.Image) -> np.uint64:
    """64 bits: is each of 8 × 8 places of the grey picture darker than its right neighbour."""
    grey = np.asarray(picture.convert("L").resize((9, 8), Image.Resampling.BILINEAR))
    return np.packbits(grey[:, :-1] < grey[:, 1:]).view(">u8")[0].astype(np.uint64)


def is_near(own: np.uint64, hashes: Hashes, bits: int) -> bool:
    """Whether a hash differs from one of `hashes` by at most so many bits."""
    return bool(len(hashes)) and int(np.bitwise_count(hashes ^ own).min()) <= bits


def measured_on(data: Path, evaluation: Path) -> Hashes:
    """Hashes of the pictures that training holds back, and of the development sets but for their masks."""
    rows, parts = held_back(data, data / "vocabulary.json")
    kept = [rows[number] for part in (parts.captions, parts.web, parts.words, parts.classes) for number in part]
    archives = {name: zipfile.ZipFile(data / name) for name in {row["shard"] for row in kept}}
    blobs = (archives[row["shard"]].read(row["file"]) for row in kept)
    files = (path for path in sorted(evaluation.rglob("*")) if path.suffix.lower() in SUFFIXES)
    shown = (path.read_bytes() for path in files if "masks" not in path.relative_to(evaluation).parts[1:])
    return np.array([difference_hash(Image.open(io.BytesIO(blob))) for blob in (*blobs, *shown)], np.uint64)


def read_pictures(repository: Path, paths: Iterable[str]) -> Iterator[bytes | None]:
    """Files of a repository's newest commit, in order; None for one that is not there."""
    command = ["git", "--git-dir", str(repository), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as git:
        assert git.stdin is not None
        assert git.stdout is not None
        for path in paths:
            git.stdin.write(f"HEAD:{path}\n".encode())
            git.stdin.flush()
            head = git.stdout.readline().split()
            if head[-1] == b"missing":
                yield None
                continue
            yield git.stdout.read(int(head[2]))
            git.stdout.read(1)


def squashed(picture: Image.Image) -> bytes:
    """A picture as it is packed."""
    out = io.BytesIO()
    small = picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    small.save(out, "AVIF", quality=QUALITY, speed=SPEED, max_threads=1)
    return out.getvalue()


class Archives:
    """Archives of one source, a new one whenever the last is full; those that are there already are not touched."""

    def __init__(self, folder: Path, source: str) -> None:
        if there := sorted(folder.glob(f"{source}-*.zip")):
            raise SystemExit(
                f"{there[0]} is there already: take its source out of {folder}, or choose another --source."
            )
        self.folder, self.source, self.number, self.room = folder, source, -1, 0
        self.opened: zipfile.ZipFile | None = None

    def put(self, file: str, blob: bytes) -> str:
        """Pack a picture; gives the name of its archive."""
        if self.opened is None or len(blob) > self.room:
            self.close()
            self.number, self.room = self.number + 1, ARCHIVE_BYTES
            self.opened = zipfile.ZipFile(self.folder / self.name, "w")
        self.room -= len(blob)
        self.opened.writestr(file, blob)
        return self.name

    def close(self) -> None:
        """Write the list of the last archive's pictures."""
        if self.opened is not None:
            self.opened.close()

    @property
    def name(self) -> str:
        """The archive that is being filled."""
        return f"{self.source}-{self.number:02d}.zip"


def pairs(args: argparse.Namespace) -> Iterator[Row]:
    """The lines of all pictures that are there, readable, and near none held back; the others are counted aloud."""
    asked = [json.loads(line) for line in args.texts.read_text().splitlines()]
    elsewhere = np.array([int(line, 16) for line in args.held_back.read_text().split()], np.uint64)
    archives = Archives(args.data, args.source)
    here = measured_on(args.data, args.eval)
    missing = near = 0
    for number, (row, blob) in enumerate(
        zip(asked, read_pictures(args.repository, (row["path"] for row in asked)), strict=True)
    ):
        try:
            picture = Image.open(io.BytesIO(blob or b""))
            own = difference_hash(picture)
        except OSError:
            missing += 1
            continue
        if is_near(own, elsewhere, ELSEWHERE) or is_near(own, here, HERE):
            near += 1
            continue
        file = f"{args.source}{number:06d}.avif"
        said = {name: row[name] for name in ("label", "texts") if name in row}
        said.setdefault("texts", [f"a photo of a {row.get('label')}"])
        shard = archives.put(file, squashed(picture))
        yield {"file": file, "shard": shard, "source": args.source, "squashed": True, **said}
    archives.close()
    print(f"{near} of {len(asked)} are near pictures held back, {missing} cannot be read", file=sys.stderr)


def main() -> None:
    """Pack one repository."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True, help="a bare git repository")
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--source", required=True, help="a short name of where the pictures come from")
    parser.add_argument("--held-back", type=Path, required=True)
    parser.add_argument("--eval", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    found = list(pairs(args))
    with (args.data / ADDED_LATER).open("a") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in found)


if __name__ == "__main__":
    main()
