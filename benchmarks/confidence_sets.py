"""What `confidence.py` asks of the development sets: queries, and what is right, wrong or unknown for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wherein import Part, Query
from wherein.bench.local.dataset import load_boxed, load_captions, load_examples, load_masks, load_objects, read_mask
from wherein.values.region import Box, iou

HERE = Path(__file__).parent
ABSENT_LISTS = (
    "absent",
    "fresh absent",
    "third absent",
    "fourth absent",
    "fifth absent",
    "sixth absent",
    "seventh absent",
)
PRESENT = HERE / "present_words.txt"
"""Texts that nothing answers, seven times, and words that captions use: each list was committed before anything was
tuned that is measured on it."""
SETS = ("captions", "road", "underwater", "covers", "objects", "facades", "masks")
"""The folders of the mixed library; of covers and facades only what is searched."""
NOUNS = """baby bathroom beach bed bench bike bird boat bridge building bus cake camera car cat chair clock cow dog
elephant fence field fish flower food football fountain giraffe girl guitar hat helmet horse house kitchen
lake man microphone motorcycle mountain ocean park pizza plane plate pool river road rock sheep skateboard
snow soccer street surfboard table tennis tower train tree truck umbrella zebra
"""
ABSENT = """baby bathroom bed cake camera cat cow dog elephant football giraffe guitar helmet horse kitchen microphone
motorcycle pizza plate sheep skateboard soccer surfboard table tennis train umbrella zebra
"""
"""What no photo of a facade or an aquarium shows."""
UNSEEN = """abacus accordion anvil armadillo bagpipe barometer bassoon beaver binoculars bison broccoli cello centipede
chainsaw cheetah cockroach compass dinosaur dumbbell envelope faucet flamingo forklift gondola gorilla hamster
hippo iguana kettle lizard llama magnet mop octopus otter pelican pliers plow pretzel quilt raccoon radiator
saxophone screwdriver seahorse skunk sled stapler stove syringe thermometer toaster trombone vacuum walrus wasp
whale wrench xylophone yak
"""
"""Of these, what no caption names is asked for (`unseen`)."""
SEEN_ELSEWHERE = {"car": {"road/*"}, "cow": {"road/*"}, "horse": {"road/*"}, "dog": {"objects/*"}}
"""Folders without captions that show what clips show: the first hits in them were looked at."""
PLACES = ("0.0,0.0,0.5,0.5", "0.5,0.4,1.0,1.0", "0.3,0.3,0.7,0.7")
SAYS_LITTLE = """a an the of in on at with and for to from by over its is are not one two three while as his her their
it that this there near next some other another very up down out into through front being has have who which s
"""
"""Words that two captions may share without showing the same."""
NEAR = 0.5
"""A photo whose captions use this share of another caption's telling words may answer it too: nobody can say."""
SHORT = range(4, 8)
"""Words of a short caption."""
OVERLAP = 0.25
"""A thing is at a place where their boxes share so much."""


@dataclass(frozen=True)
class Ask:
    """A query, what answers it, and what nobody can say of; every other image is wrong."""

    query: Query
    right: frozenset[str]
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Trial:
    """Queries of one kind, asked of one library by one method."""

    kind: str
    name: str
    library: str
    method: str
    asks: tuple[Ask, ...]
    fitted: bool = True
    """Whether models may be fitted on it; texts of the development sets are for measuring only."""


def absent_texts(which: str = "absent") -> list[str]:
    """One of ABSENT_LISTS."""
    return lines_of(HERE / f"{which.replace(' ', '_')}_texts.txt")


def lines_of(path: Path) -> list[str]:
    """The lines of a list that are no comment."""
    return [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]


def near(words: str, one: str, said: Mapping[str, Sequence[set[str]]]) -> frozenset[str]:
    """Other photos whose captions use NEAR of the telling words of a caption of photo `one`."""
    telling = set(re.findall("[a-z]+", words.lower())) - set(SAYS_LITTLE.split())
    return frozenset(
        other
        for other, own in said.items()
        if other != one and telling and len(telling & set().union(*own)) / len(telling) >= NEAR
    )


def short_asks(captions: Mapping[str, Sequence[str]], said: Mapping[str, Sequence[set[str]]]) -> Iterator[Ask]:
    """The shortest caption of every photo that has one of SHORT words."""
    for one, own in sorted(captions.items()):
        plain = [" ".join(re.findall(r"[^\s.,]+", words)) for words in own]
        short = sorted((words for words in plain if len(words.split()) in SHORT), key=lambda words: len(words.split()))
        if short:
            yield Ask(text(short[0]), frozenset({one}), near(short[0], one, said))


def text(words: str, *, where: Box | None = None) -> Query:
    """A text, taken literally."""
    return Query((Part(text=words, where=where),))


def named(noun: str) -> str:
    """A name with its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


class Sets:
    """The development sets, as parts of one folder: ids are `set/file`."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def folder(self, name: str) -> Path:
        """The images of a set that are searched."""
        inner = {"covers": "database", "facades": "database", "objects": ""}.get(name, "images")
        return self.data / name / inner

    @cached_property
    def captions(self) -> Mapping[str, list[str]]:
        """Photo → its captions."""
        found = dict[str, list[str]]()
        for image_id, words in load_captions(self.data / "captions").captions:
            found.setdefault(f"captions/{image_id}", []).append(words)
        return found

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Photo → where it was published: two different sets of captions."""
        lines = (self.data / "captions" / "captions.jsonl").read_text("utf-8").splitlines()
        read = [json.loads(line) for line in lines]
        return {f"captions/{Path(one['image']).name}": one["source"] for one in read}

    @cached_property
    def said(self) -> Mapping[str, list[set[str]]]:
        return {one: [set(re.findall("[a-z]+", said.lower())) for said in own] for one, own in self.captions.items()}

    @cached_property
    def half(self) -> frozenset[str]:
        """Images that are removed so that half of the queries have no answer."""
        gone = set(sorted(self.captions)[::2])
        for name in ("covers", "facades", "objects", "masks"):
            things = sorted({min(ask.right | ask.unknown) for ask in self.examples(name)})[::2]
            for ask in self.examples(name):
                if min(ask.right | ask.unknown) in things:
                    gone |= ask.right | ask.unknown
        return frozenset(gone)

    def stays(self, image_id: str, library: str) -> bool:
        """Whether an image is part of a library, by its name: `half-` and `rest-` have half of the answers each."""
        wanted = library.removeprefix("half-").removeprefix("rest-")
        if library != wanted and (image_id in self.half) == library.startswith("half-"):
            return False
        if wanted.startswith("captions-"):
            return self.sources.get(image_id) == wanted.removeprefix("captions-")
        return wanted == "mixed" or image_id.startswith(f"{wanted}/")

    def caption_asks(self, source: str | None = None, *, which: slice = slice(1)) -> Iterator[Ask]:
        """The first caption of every photo, or some of its five; photos that may answer it too are not judged."""
        for image_id, own in self.captions.items():
            if source is not None and self.sources[image_id] != source:
                continue
            for words in own[which]:
                yield Ask(text(words), frozenset({image_id}), near(words, image_id, self.said))

    def short_asks(self) -> Iterator[Ask]:
        """The shortest captions."""
        yield from short_asks(self.captions, self.said)

    def present_asks(self, words: Sequence[str]) -> Iterator[Ask]:
        """Words and short names, asked for as they are: labels as those of nouns."""
        for own in words:
            said = re.compile(rf"\b{own}s?\b")
            count = {one: sum(bool(said.search(each.lower())) for each in all_) for one, all_ in self.captions.items()}
            unknown = frozenset(one for one, number in count.items() if number == 1)
            yield Ask(text(own), frozenset(one for one, number in count.items() if number > 1), unknown)

    def noun_asks(self) -> Iterator[Ask]:
        """A noun is right where two captions or more name it, and unknown where one does, or nobody captioned it."""
        for noun in NOUNS.split():
            either = {noun, f"{noun}s"}
            count = {one: sum(not own.isdisjoint(either) for own in words) for one, words in self.said.items()}
            unknown = frozenset(one for one, number in count.items() if number == 1)
            yield Ask(text(named(noun)), frozenset(one for one, number in count.items() if number > 1), unknown)

    def showing(self, noun: str) -> frozenset[str]:
        """What shows a thing at some place of which nobody says where it is."""
        either = {noun, f"{noun}s"}
        named_ = {one for one, own in self.said.items() if any(not said.isdisjoint(either) for said in own)}
        return frozenset(named_ | SEEN_ELSEWHERE.get(noun, set()))

    def label_asks(self) -> Iterator[Ask]:
        """Each label of the aquarium."""
        boxed = load_boxed(self.data / "underwater").boxes
        for label in sorted({label for boxes in boxed.values() for label in boxes}):
            yield Ask(text(label), frozenset(f"underwater/{one}" for one, own in boxed.items() if label in own))

    def place_asks(self) -> Iterator[Ask]:
        """Each label at its largest box in every second photo: right where it is, unknown where it is elsewhere."""
        boxed = load_boxed(self.data / "underwater").boxes
        for _, boxes in sorted(boxed.items())[::2]:
            for label, own in boxes.items():
                place = max(own, key=lambda box: box.area)
                best = {
                    f"underwater/{other}": max(iou(place, box) for box in theirs[label])
                    for other, theirs in boxed.items()
                    if label in theirs
                }
                right = frozenset(other for other, share in best.items() if share >= OVERLAP)
                yield Ask(text(label, where=place), right, frozenset(best) - right)

    def clip_place_asks(self) -> Iterator[Ask]:
        """What each clip shows, by its name, where its mask is."""
        said = {"blackswan": "a black swan", "breakdance": "a breakdancer", "cows": "a cow", "dog": "a dog"}
        said |= {"car-roundabout": "a car", "drift-straight": "a drifting car", "horsejump-high": "a horse"}
        said |= {"libby": "a dog", "paragliding-launch": "a paraglider", "scooter-black": "a scooter"}
        places = {
            f"masks/{frame}": mask_box(mask)
            for clip in load_masks(self.data / "masks").clips
            for frame, mask in clip.masks.items()
        }
        for one, place in places.items():
            name = one.split("/")[1]
            same = {other: box for other, box in places.items() if said.get(other.split("/")[1]) == said.get(name)}
            right = frozenset(other for other, box in same.items() if iou(box, place) >= OVERLAP)
            yield Ask(text(said.get(name, name), where=place), right, frozenset(same) - right)

    def examples(self, name: str, *, regions: bool = False) -> list[Ask]:
        """Example images of a set, or the middle (of a clip, the thing) of each; their own image is not judged."""
        box = Box(0.2, 0.2, 0.8, 0.8) if regions else None
        if name == "masks":
            found = []
            for clip in load_masks(self.data / "masks").clips:
                frames = frozenset(f"masks/{frame}" for frame in clip.masks)
                for frame, mask in clip.masks.items():
                    own = frozenset({f"masks/{frame}"})
                    part = Part(image=self.folder("masks") / frame, box=mask_box(mask) if regions else None)
                    found.append(Ask(Query((part,)), frames - own, own))
            return found
        folder = self.data / name
        read = load_objects(folder) if name == "objects" else load_examples(folder, benchmark=name)
        return [
            Ask(
                Query((Part(image=one.path, box=box),)),
                frozenset(f"{name}/{other}" for other in one.relevant),
                frozenset() if one.own is None else frozenset({f"{name}/{one.own}"}),
            )
            for one in read.queries
        ]


def mask_box(mask: Path) -> Box:
    """The box around a mask."""
    pixels = read_mask(mask)
    rows, columns = pixels.any(axis=1).nonzero()[0], pixels.any(axis=0).nonzero()[0]
    height, width = pixels.shape
    return Box(columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height)


def unanswered(words: Sequence[str], *, where: bool = False) -> tuple[Ask, ...]:
    """Texts that nothing answers; with `where`, each at one of a few places."""
    places = [Box.parse(place) for place in PLACES]
    return tuple(
        Ask(text(one, where=places[number % len(places)] if where else None), frozenset())
        for number, one in enumerate(words)
    )


def unseen(said: Mapping[str, Sequence[set[str]]]) -> list[str]:
    """Names of things that none of some captions names."""
    named_ = set().union(*(words for own in said.values() for words in own))
    return [named(one) for one in UNSEEN.split() if named_.isdisjoint({one, f"{one}s"})]


def trials(sets: Sets) -> Iterator[Trial]:
    """Everything that is asked of the development sets; names that begin with `mixed ` are asked of the mixed library.

    The model of texts is fitted on other photographs (`confidence_held.py`), so all texts here are for measuring; so is
    what nothing answers, which the bound is for (`confidence_inside.py`).
    """
    yield from _texts(sets)
    for kind, regions in (("example", False), ("region", True)):
        for name in ("covers", "facades", "objects", "masks"):
            asks = tuple(sets.examples(name, regions=regions))[:: 4 if name == "covers" else 1]
            yield Trial(kind, name, f"half-{name}", "mini", asks)
            yield Trial(kind, f"mixed {name}", "half-mixed", "mini", asks)
    nouns, none = [named(one) for one in ABSENT.split()], unseen(sets.said)
    yield Trial("place", "underwater", "underwater", "static-36", tuple(sets.place_asks()))
    yield Trial("place", "clips", "masks", "static-36", tuple(sets.clip_place_asks()))
    for name in ("facades", "underwater"):
        yield Trial("place", f"no-{name}", name, "static-36", unanswered(nouns, where=True), fitted=False)
    yield Trial("place", "unseen in road", "road", "static-36", unanswered(none, where=True), fitted=False)
    clips = tuple(_blind(ask, sets.showing(_noun(ask))) for ask in sets.clip_place_asks())
    yield Trial("place", "mixed clips", "mixed", "static-36", clips, fitted=False)
    yield Trial("place", "mixed underwater", "mixed", "static-36", tuple(sets.place_asks()), fitted=False)
    yield Trial("anywhere", "nouns", "captions", "patches", tuple(sets.noun_asks()))
    yield Trial("anywhere", "underwater", "underwater", "patches", tuple(sets.label_asks()))
    for name in ("facades", "underwater"):
        yield Trial("anywhere", f"no-{name}", name, "patches", unanswered(nouns), fitted=False)
    yield Trial("anywhere", "unseen in captions", "captions", "patches", unanswered(none), fitted=False)
    for name in ("facades", "objects", "masks"):
        yield Trial("again", name, f"half-{name}", "mini+qe", tuple(sets.examples(name)))
        yield Trial("again", f"{name} by diffusion", f"half-{name}", "mini+diffusion", tuple(sets.examples(name)))
    yield Trial("again", "nouns", "captions", "mini+qe", tuple(sets.noun_asks()))
    yield Trial("again", "unseen in captions", "captions", "mini+qe", unanswered(none), fitted=False)
    for kind, method in (("words", "bow"), ("verified", "bow+sp"), ("fused", "mini+bow+sp")):
        for name in ("covers", "facades", "objects", "masks"):
            asks = tuple(sets.examples(name))[:: {"covers": 5, "facades": 1}.get(name, 3)]
            yield Trial(kind, name, f"half-{name}", method, asks)
            if kind != "words":
                yield Trial(kind, f"mixed {name}", "half-mixed", method, asks[:: 2 if name != "facades" else 1])


def _texts(sets: Sets) -> Iterator[Trial]:
    nouns, none, said = [named(one) for one in ABSENT.split()], unseen(sets.said), list(sets.captions.values())
    asked = list[tuple[str, str, tuple[Ask, ...]]]()
    for source in sorted(set(sets.sources.values())):
        asks = tuple(sets.caption_asks(source))
        asked += [(f"captions {source}", f"half-captions-{source}", asks)]
        asked += [(f"mixed captions {source}", "half-mixed", asks)]
        every = tuple(sets.caption_asks(source, which=slice(5)))
        asked += [(f"every {source} {half}", f"{half}-captions-{source}", every) for half in ("half", "rest")]
    short = tuple(sets.short_asks())
    asked += [("short captions", "half-captions", short), ("mixed short captions", "half-mixed", short)]
    others = frozenset(f"{name}/*" for name in SETS if name != "captions")
    for name, asks in (("nouns", tuple(sets.noun_asks())), ("words", tuple(sets.present_asks(lines_of(PRESENT))))):
        asked += [(name, "captions", asks), (f"mixed {name}", "mixed", tuple(_blind(ask, others) for ask in asks))]
    asked += [("underwater", "underwater", tuple(sets.label_asks()))]
    for name, step in (("facades", 7), ("underwater", 8)):
        scenes = unanswered([own[0] for own in said[::step]])
        asked += [(f"no-{name}", name, unanswered(nouns)), (f"scenes of {name}", name, scenes)]
    asked += [(f"unseen in {name}", name, unanswered(none)) for name in ("objects", "covers", "road")]
    for what in ABSENT_LISTS:
        asks = unanswered(absent_texts(what))
        asked += [(f"{what} from {library}", library, asks) for library in ("captions", "covers")]
        asked += [(f"mixed {what}", "half-mixed", asks)]
    for name, library, asks in asked:
        yield Trial("text", name, library, "mini", asks, fitted=False)


def _blind(ask: Ask, images: frozenset[str]) -> Ask:
    """A query of which nobody can say whether some images, or those in some folders (`name/*`), answer it."""
    return Ask(ask.query, ask.right, ask.unknown | images)


def _noun(ask: Ask) -> str:
    """What a text asks for: its last word."""
    return (ask.query.parts[0].text or "").split()[-1]
