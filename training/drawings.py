"""Pack named drawings and cut-out photographs (Open Clip Art, Tux Paint stamps, Fluent emoji) as training pairs.

They name many things that no photograph in the training set shows. The output has the format of the
photographs' archives: one zip of pictures and one JSON line per picture.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from wordnet import VISIBLE_KINDS, read_synsets

SIDE = 224
SKIPPED_FOLDERS = (
    "shapes", "icons", "flags", "cards", "gradients", "patterns", "examples", "logos", "map_symbols", "duplicates",
    "callouts", "arrows", "flowchart", "borders", "alphabet", "aiga-symbols",
)  # fmt: skip
MAX_BYTES = 2_000_000
MARKUP_WORDS = {"hash", "menu", "office", "unsorted"}
Pair = tuple[str, Path, list[str]]


def flatten(path: Path, rng: random.Random) -> Image.Image:
    """On white, mostly; on a random light colour otherwise, so that the background says nothing."""
    picture = Image.open(path).convert("RGBA")
    picture.thumbnail((1024, 1024))
    box = picture.getchannel("A").getbbox()
    picture = picture.crop(box) if box else picture
    w, h = picture.size
    margin = int(rng.uniform(0.02, 0.15) * max(w, h))
    colour = (255, 255, 255) if rng.random() < 0.6 else tuple(rng.randrange(90, 256) for _ in range(3))
    side = (max(w, h) + 2 * margin, max(w, h) + 2 * margin)
    canvas = Image.new("RGB", side, colour)
    canvas.paste(picture, ((side[0] - w) // 2, (side[1] - h) // 2), picture)
    return canvas.resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def clip_art(svg_root: Path, png_root: Path, nouns: set[str]) -> Iterator[Pair]:
    """Open Clip Art whose title or keywords are names of visible things."""
    for svg in sorted(svg_root.rglob("*.svg")):
        png = png_root / svg.relative_to(svg_root).with_suffix(".png")
        if any(part in SKIPPED_FOLDERS for part in svg.parts) or not png.exists():
            continue
        source = svg.read_text(encoding="utf-8", errors="ignore")
        titles = re.findall(r"<dc:title>([^<]*)</dc:title>", source)[:1]
        words = [word.strip().lower() for word in titles + re.findall(r"<rdf:li>([^<]*)</rdf:li>", source)]
        named = [name for word in words for name in visible_names(word, nouns)]
        if named:
            yield "clipart", png, list(dict.fromkeys(named))[:3]


def visible_names(words: str, nouns: set[str]) -> list[str]:
    """The longest run of words that names something visible, e.g. `acoustic guitar 2` → `acoustic guitar`."""
    parts = [part for part in re.split(r"[^a-z]+", words) if part]
    for size in (3, 2, 1):
        for start in range(len(parts) - size + 1):
            name = " ".join(parts[start : start + size])
            if name in nouns and len(name) > 2:
                return [name]
    return []


def stamps(root: Path) -> Iterator[Pair]:
    """Tux Paint's stamps with the English line of their description."""
    for text in sorted(root.rglob("*.txt")):
        png = text.with_suffix(".png")
        if png.exists() and "symbols" not in text.parts:
            yield "stamp", png, [text.read_text(encoding="utf-8").splitlines()[0].strip()]


def emoji(root: Path) -> Iterator[Pair]:
    """Single-character emoji that are pictures of things: no faces, flags, letters or signs."""
    for file in sorted(root.glob("*.webp")):
        codes = [code for code in file.stem.split("-") if code != "fe0f"]
        if len(codes) != 1:
            continue
        character = chr(int(codes[0], 16))
        name = unicodedata.name(character, "").lower()
        if unicodedata.category(character) == "So" and not re.search(r"face|squared|sign|symbol|button|clock", name):
            yield "emoji", file, [name]


def main() -> None:
    """Write `drawings.zip` and `drawings.jsonl` into the output folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("clipart_svg", "clipart_png", "stamps", "emoji", "wordnet", "out"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, required=True)
    args = parser.parse_args()
    synsets = read_synsets(args.wordnet / "data.noun")
    visible = (synset for synset in synsets.values() if synset.kind in VISIBLE_KINDS)
    nouns = {lemma.lower() for synset in visible for lemma in synset.lemmas} - MARKUP_WORDS
    rng = random.Random(0)
    with zipfile.ZipFile(args.out / "drawings.zip", "w") as archive, (args.out / "drawings.jsonl").open("w") as lines:
        pairs = [*clip_art(args.clipart_svg, args.clipart_png, nouns), *stamps(args.stamps), *emoji(args.emoji)]
        small = [pair for pair in pairs if pair[1].stat().st_size < MAX_BYTES]
        for number, (source, picture, texts) in enumerate(small):
            buffer = io.BytesIO()
            flatten(picture, rng).save(buffer, "WEBP", quality=70)
            archive.writestr(f"d{number:05d}.webp", buffer.getvalue())
            row = {"file": f"d{number:05d}.webp", "shard": "drawings.zip", "source": source, "texts": texts}
            lines.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
