"""Train both towers on image–text pairs, class names and WordNet, and keep a running average of the weights."""

from __future__ import annotations

import copy
import json
import math
import random
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import augment
import boxes as boxed
import losses
import probe
import texts as wording
import vocabulary as words
from config import Config, parse
from data import THINGS, Pairs, Split, load_pairs, near_held_back, split
from tables import CAPTION_TOKENS, Tables, build_tables, draw_texts, hear, mask_words, text_targets, unit
from towers import ImageTower, TextTower, load_backbone, load_image_weights, load_text_tower

# Small pictures first: (share of the run done, side of the picture as a share of the full side).
SIDES = ((0.35, 0.715), (0.65, 0.858), (1.01, 1.0))
# How often a source is shown in one pass; `focus` runs lean towards people's captions.
REPEATS = {"imagenet1000": 3, "stamp": 2}
FOCUS = {
    "imagenet1000": 4, "stamp": 2, "coco_human": 2, "flickr8k": 2, "ccs_synth": 2,
    **dict.fromkeys(THINGS, 3), "seaanimals": 2, "fruitveg36": 2, "coco_human_trcap": 2,
    **dict.fromkeys(("androidvocab", "flashcards_ik", "gastronomic", "guesspicture", "reactivate"), 2),
    **dict.fromkeys(("wrongchoice", "englishlv", "wordpics", "dyslexia", "haslett", "magpie", "mini2kai", "mtwersky",
                     "psych750", "learnenglishapp", "memorizewords", "kidsduolingo", "imagen", "cocomini"), 2),
}  # fmt: skip


# The inverse temperature that all three terms had reached when the first edition's second run ended.
LATE_SCALE = 30.0


class Scales(nn.Module):
    """Learned inverse temperatures, kept at most 100."""

    def __init__(self) -> None:
        super().__init__()
        self.logs = nn.Parameter(torch.tensor([math.log(20.0), math.log(20.0), math.log(30.0)]))

    def forward(self) -> Tensor:
        """Scales of the whole-image, patch and class terms."""
        return self.logs.exp().clamp(max=100)


class Model(nn.Module):
    """Both towers and the scales, so that one average covers all."""

    def __init__(self, image: ImageTower, text: TextTower) -> None:
        super().__init__()
        self.image, self.text, self.scales = image, text, Scales()


def invent(pooled: Tensor, weight: Tensor) -> Tensor:
    """Features of things not in the batch: real ones faded, with a random class's weights added."""
    labels = torch.randint(len(weight), (len(pooled),), device=pooled.device)
    rows = weight[labels]
    gain = augment.uniform(len(pooled), 4, 14, pooled.device) / rows.square().sum(1)
    fade = augment.uniform(len(pooled), 0.2, 0.9, pooled.device)
    return F.relu(pooled * fade[:, None] + gain[:, None] * rows)


def masked_softmax(logits: Tensor, seen: Tensor) -> Tensor:
    """Class probabilities among the classes training may name."""
    return logits.float().masked_fill(seen == 0, -1e4).softmax(-1)


def region_loss(patches: Tensor, inset: Tensor, texts: Tensor, order: Tensor, *, scale: Tensor) -> Tensor:
    """In mosaics, the patches of the inset must fit its own text, and those around it the host's.

    `patches (m, p, d)`, `inset (m, p)` marks patches of the inset, `texts (m, d)` are the hosts' own texts and
    `order (m,)` says whose picture was inserted.
    """
    weight = inset.float()
    inner = unit(torch.einsum("mpd,mp->md", patches, weight))
    outer = unit(torch.einsum("mpd,mp->md", patches, 1 - weight))
    rows = torch.cat([inner, outer])
    right = torch.cat([order, torch.arange(len(order), device=order.device)])
    return F.cross_entropy(scale * rows @ texts.T, right)


@torch.no_grad()
def earlier_view(earlier: Model, pictures: Tensor, *, mean_share: float) -> Tensor:
    """`(n, d)`: where an earlier run puts pictures."""
    whole, patch, _ = earlier.image(pictures)
    patches = unit(patch.flatten(2).transpose(1, 2))
    return unit(unit(whole) + mean_share * unit(patches.mean(1)))


@torch.no_grad()
def earlier_answers(earlier: list[Model], views: list[Tensor], texts: Tensor) -> Tensor:
    """`(n, n)`: which texts earlier runs find fitting for pictures that they see so, as probabilities: their mean."""
    answers = [(LATE_SCALE * seen @ unit(model.text(texts, texts != 0)).T).softmax(-1)
               for model, seen in zip(earlier, views, strict=True)]  # fmt: skip
    return torch.stack(answers).mean(0)


@torch.no_grad()
def likeness(views: list[Tensor]) -> Tensor:
    """`(n, n)`: how alike earlier runs find pictures, on average."""
    return torch.stack([seen @ seen.T for seen in views]).mean(0)


def step_losses(
    model: Model,
    forward: tuple[nn.Module, nn.Module],
    tables: Tables,
    index: Tensor,
    *,
    side: int,
    config: Config,
    places: boxed.Boxes | None = None,
    earlier: list[Model] | None = None,
) -> dict[str, Tensor]:
    """All terms of the loss, weighted, for the pictures numbered `index`; the last `mosaics` become mosaics."""
    x = augment.augment(tables.pictures[index], side=side, smallest=config.smallest)
    plain = len(x) - (config.mosaics if config.region_weight else 0)
    mosaic, inset, order = augment.inset(x[plain:])
    x = torch.cat([x[:plain], mosaic]).to(memory_format=torch.channels_last)
    fc = model.image.backbone.fc
    with torch.no_grad():
        teacher_logits = fc(forward[1](x).s32.mean((2, 3)))
    again = config.again if config.again_weight else 0
    if again:
        second_look = augment.augment(tables.pictures[index[:again]], side=side, smallest=0.2)
        x = torch.cat([x, second_look]).to(memory_format=torch.channels_last)
    if places is not None:
        shown, *drawn = boxed.draw(places, tables.pictures, count=config.boxed, side=side)
        x = torch.cat([x, shown]).to(memory_format=torch.channels_last)
    whole, patch, pooled = forward[0](x)
    patches = unit(patch.flatten(2).transpose(1, 2))
    seen_again, boxed_patches = patches[len(index) : len(index) + again], patches[len(index) + again :]
    looked = unit(unit(whole[len(index) : len(index) + again]) + config.mean_share * unit(seen_again.mean(1)))
    patches, whole, pooled = patches[: len(index)], whole[: len(index)], pooled[: len(index)]
    shares = (config.extra_share, config.patch_extra_share)
    first, second = (draw_texts(tables, index, share=share) for share in shares)
    cut = int(torch.randint(len(tables.cut_tokens), ()))
    nouns = torch.multinomial(tables.noun_weight, config.nouns)
    heard = mask_words(hear(tables, torch.cat([first, second]), slips=config.slip_share), config.mask_share)
    said = (heard, tables.cut_tokens[cut], tables.noun_tokens[nouns])
    captions, names, spoken = (unit(model.text(tokens, tokens != 0)) for tokens in said)
    caption, phrase = captions.chunk(2)
    whole = unit(unit(whole) + config.mean_share * unit(patches.mean(1)))
    targets = [
        text_targets(tables, index[:plain], chosen[:plain], share=config.soft_share) for chosen in (first, second)
    ]
    alike = None
    if earlier is not None:
        views = [earlier_view(one, x[:plain], mean_share=config.mean_share) for one in earlier]
        alike = likeness(views)
        told = [earlier_answers(earlier, views, tables.tokens[chosen[:plain]]) for chosen in (first, second)]
        share = config.teach_share
        targets = [(1 - share) * target + share * answer for target, answer in zip(targets, told, strict=True)]
    scales = model.scales()
    seen = tables.seen_class
    invented = invent(pooled.detach().float(), fc.weight)
    hidden = tables.cut_shared[cut].masked_fill(seen == 0, 1e30)
    class_terms = {"names": names, "scale": scales[2], "shared": hidden}
    found = unit(model.image.project(invented))
    named = scales[1] * 0
    if places is not None:
        spelled = places.names[int(torch.randint(len(places.names), ()))]
        called = unit(model.text(spelled, spelled != 0))
        named = boxed.loss(boxed_patches, *drawn, called, scale=scales[1])
    return {
        "boxes": config.box_weight * named,
        "again": config.again_weight
        * (losses.recognise(looked, whole[:plain], scale=scales[0]) if again else scales[0] * 0),
        "alike": config.alike_weight
        * (losses.keep_likeness(whole[:plain], alike) if alike is not None else scales[0] * 0),
        "whole": losses.contrast(whole[:plain], caption[:plain], scale=scales[0], target=targets[0]) / 2
        + losses.contrast(whole[:plain], phrase[:plain], scale=scales[0], target=targets[1]) / 2,
        "patch": config.patch_weight
        * losses.contrast_patches(patches[:plain], phrase[:plain], scale=scales[1], target=targets[1]),
        "region": config.region_weight
        * (
            region_loss(patches[plain:], inset, caption[plain:], order, scale=scales[1])
            if len(inset)
            else scales[1] * 0
        ),
        "class": config.class_weight
        * losses.name_classes(whole, **class_terms, target=masked_softmax(teacher_logits, seen)),
        "keep": config.keep_weight * losses.keep_classes(fc(pooled), teacher_logits.float().softmax(-1)),
        "invent": config.invent_weight
        * losses.name_classes(found, **class_terms, target=masked_softmax(fc(invented), seen)),
        "geometry": config.geometry_weight
        * losses.keep_geometry(spoken, tables.noun_reference[nouns], temperature=0.07),
    }


def build_model(config: Config, device: torch.device) -> tuple[Model, nn.Module, TextTower]:
    """The model, the frozen classifier that teaches it, and the frozen sentence encoder."""
    folder = Path(config.data)
    teacher = (
        load_backbone(folder / "lite2.pth").eval().requires_grad_(False).to(device, memory_format=torch.channels_last)
    )
    text_teacher = load_text_tower(folder / "minilm.safetensors").eval().requires_grad_(False).to(device)
    image = ImageTower(load_backbone(folder / "lite2.pth"))
    image.backbone.set_drop(config.drop)
    image.backbone.fc.requires_grad_(False)
    model = Model(image, load_text_tower(folder / "minilm.safetensors")).to(device, memory_format=torch.channels_last)
    if config.start:
        resume(model, config.start)
    return model, teacher, text_teacher


def resume(model: Model, start: str) -> None:
    """Begin from towers that `save` wrote, at their last temperature; the classifier stays the published one."""
    from safetensors.torch import load_file

    load_image_weights(model.image, load_file(f"{start}-image.safetensors"))
    model.text.load_state_dict({key: value.float() for key, value in load_file(f"{start}-text.safetensors").items()})
    model.scales.logs.data.fill_(math.log(LATE_SCALE))


def frozen_copy(model: Model, start: str) -> Model:
    """Towers that `save` wrote, to teach and not to learn."""
    earlier = copy.deepcopy(model)
    resume(earlier, start)
    return earlier.eval().requires_grad_(False)


def build_optimizer(model: Model, config: Config) -> torch.optim.Optimizer:
    """AdamW with a learning rate for each part; only matrices and filters decay, embeddings and norms do not."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        lr = config.head_lr
        if name.startswith(("image.backbone.", "image.second.blocks", "image.second.conv_head", "image.second.bn1")):
            lr = config.image_lr
        elif name.startswith("text.") and not name.startswith("text.head"):
            lr = config.text_lr
        decay = config.decay if parameter.ndim > 1 and "text.words" not in name and "positions" not in name else 0.0
        groups.setdefault((lr, decay), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": part, "lr": lr, "peak": lr, "weight_decay": decay} for (lr, decay), part in groups.items()],
        betas=(0.9, 0.98), fused=torch.cuda.is_available(),
    )  # fmt: skip


def schedule(progress: float) -> float:
    """Five percent of warm-up, then a cosine to zero."""
    return min(progress / 0.05, 1.0) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2


def current_side(progress: float, config: Config) -> int:
    """The side of training pictures, a multiple of 32 that grows in steps when the run is `growing`."""
    share = next(share for until, share in SIDES if progress < until) if config.growing else 1.0
    return round(config.side * share / 32) * 32


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Move the running average, batch-norm statistics included, towards the model."""
    old, new = list(average.state_dict().values()), list(model.state_dict().values())
    floats = [(a, b) for a, b in zip(old, new, strict=True) if a.is_floating_point()]
    torch._foreach_lerp_([a for a, _ in floats], [b for _, b in floats], 1 - decay)


def batches(rows: np.ndarray, repeats: np.ndarray, *, batch: int, rng: np.random.Generator) -> torch.Tensor:
    """One epoch of row numbers, `(steps, batch)`, shuffled; some sources are repeated."""
    order = rng.permutation(np.repeat(rows, repeats))
    steps = len(order) // batch
    return torch.from_numpy(order[: steps * batch].reshape(steps, batch))


def validate(
    model: Model,
    pairs: Pairs,
    parts: Split,
    classes: dict[int, int],
    config: Config,
    vocabulary: words.Vocabulary,
    device: torch.device,
) -> dict[str, float]:
    """Caption retrieval and naming on the held-back pictures."""
    model.eval()
    long = wording.load_tokenizer(Path(config.data) / "tokenizer.json", length=CAPTION_TOKENS)

    def tokens(texts: list[str]) -> Tensor:
        return torch.from_numpy(wording.encode(texts, long)).to(device)

    def pictures(rows: np.ndarray) -> Tensor:
        found = torch.from_numpy(pairs.pictures[rows]).to(device)
        return probe.embed_pictures(model.image, found, side=256, mean_share=config.mean_share)[0]

    captions = [(text, i) for i, row in enumerate(parts.captions) for text in pairs.rows[row]["texts"]]
    similarity = probe.embed_texts(model.text, tokens([text for text, _ in captions])) @ pictures(parts.captions).T
    result = probe.recall(similarity, torch.tensor([i for _, i in captions], device=device))
    bare = probe.embed_texts(model.text, tokens([entry.names[0] for entry in vocabulary.classes]))
    photo = probe.embed_texts(model.text, tokens([f"a photo of a {entry.names[0]}" for entry in vocabulary.classes]))
    for name, rows in (("seen", parts.seen), ("unseen", parts.unseen)):
        known = np.array([row for row in rows if int(row) in classes])
        labels = torch.tensor([classes[int(row)] for row in known], device=device)
        embedded = pictures(known)
        result[f"{name}_bare"] = probe.hundred_way(embedded @ bare.T, labels)
        result[f"{name}_photo"] = probe.hundred_way(embedded @ photo.T, labels)
    names = sorted({pairs.rows[row]["texts"][0] for row in parts.drawn})
    drawn = pictures(parts.drawn) @ probe.embed_texts(model.text, tokens(names)).T
    labels = torch.tensor([names.index(pairs.rows[row]["texts"][0]) for row in parts.drawn], device=device)
    result["drawn"] = probe.hundred_way(drawn, labels)
    result |= proxies(pairs, parts, pictures, lambda texts: probe.embed_texts(model.text, tokens(texts)))
    model.train()
    return result


def proxies(
    pairs: Pairs, parts: Split, pictures: Callable[[np.ndarray], Tensor], say: Callable[[list[str]], Tensor]
) -> dict[str, float]:
    """Look-alikes of sets held back elsewhere: web captions, single words, classes whose names were never taught."""
    web = [(text, i) for i, row in enumerate(parts.web) for text in pairs.rows[row]["texts"]]
    words_of, classes_of = ([pairs.rows[row]["label"].lower() for row in rows] for rows in (parts.words, parts.classes))
    asked = {
        "web": ([text for text, _ in web], [i for _, i in web], parts.web),
        "word": (words_of, list(range(len(words_of))), parts.words),
    }
    result = {}
    for name, (said, owners, rows) in asked.items():
        shown = pictures(rows)
        found = probe.recall(say(said) @ shown.T, torch.tensor(owners, device=shown.device))
        result |= {f"{name}_{key}": value for key, value in found.items() if key != "R@5"}
        if name == "word":
            slips = random.Random(0)
            typed = [wording.misspell(word, slips) if len(word) > 3 else word for word in said]
            result["typo_R@10"] = probe.recall(say(typed) @ shown.T, torch.tensor(owners, device=shown.device))["R@10"]
    names = sorted(set(classes_of))
    shown = pictures(parts.classes)
    right = torch.tensor([names.index(name) for name in classes_of], device=shown.device)
    for title, form in (("bare", "{}"), ("photo", "a photo of a {}")):
        best = (shown @ say([form.format(name) for name in names]).T).argmax(1)
        result[f"classes_{title}"] = round(100 * (best == right).float().mean().item(), 2)
    return result


def save(model: Model, folder: Path, name: str) -> None:
    """Both towers as half-precision safetensors, without the classifier."""
    from safetensors.torch import save_file

    for part, tower in (("image", model.image), ("text", model.text)):
        state = {key: value.half().contiguous().cpu() if value.is_floating_point() else value.cpu()
                 for key, value in tower.state_dict().items() if not key.startswith("backbone.fc")}  # fmt: skip
        save_file(state, folder / f"{name}-{part}.safetensors")


def class_rows(pairs: Pairs, vocabulary: words.Vocabulary) -> dict[int, int]:
    """The rows that show an ImageNet class, and which."""
    numbers = words.class_numbers(vocabulary)
    names = {i: words.plain_name(wording.class_name(row["texts"][0])) for i, row in enumerate(pairs.rows)
             if row["source"] == "imagenet1000"}  # fmt: skip
    return {i: numbers[name] for i, name in names.items() if name in numbers}


def hold_back(
    pairs: Pairs, classes: dict[int, int], vocabulary: words.Vocabulary, config: Config
) -> tuple[Split, np.ndarray]:
    """What is trained on and what is kept for measuring, and the rows left out as near to sets held back elsewhere.

    The same pictures are kept in every run of both editions, whatever its seed.
    """
    unseen = set(words.pick_unseen(vocabulary, 0))
    held = {pairs.rows[i]["file"] for i, number in classes.items() if number in unseen}
    parts = split(pairs.rows, held, seed=0, whole=config.whole)
    near = near_held_back(Path(config.data), pairs.rows)
    return replace(parts, train=np.setdiff1d(parts.train, near)), near


def train(config: Config) -> None:
    """The whole run."""
    torch.manual_seed(config.seed)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    out = Path(config.out)
    begin = time.time()
    log = (out / f"{config.name}.log").open("w")

    def say(**values: object) -> None:
        line = json.dumps({"t": round(time.time() - begin, 1), **values})
        print(config.name, line, flush=True)
        log.write(line + "\n")
        log.flush()

    vocabulary = words.read(Path(config.data) / "vocabulary.json")
    pairs = load_pairs(Path(config.data))
    classes = class_rows(pairs, vocabulary)
    unseen = words.pick_unseen(vocabulary, config.seed)
    parts, near = hold_back(pairs, classes, vocabulary, config)
    model, teacher, text_teacher = build_model(config, device)
    tables = build_tables(pairs, vocabulary, text_teacher, config=config, unseen=unseen, device=device)
    say(
        config=asdict(config),
        rows=len(pairs.rows),
        train=len(parts.train),
        near_held_back=len(near),
        texts=len(tables.tokens),
        named=len(classes),
    )
    regions = Path(config.data) / "regions.jsonl"
    places = None
    if config.box_weight:
        places = boxed.read_boxes(regions, pairs.rows, Path(config.data) / "tokenizer.json", device=device)
    if config.start:
        say(step=0, start=validate(model, pairs, parts, classes, config, vocabulary, device))
    average = copy.deepcopy(model)
    earlier = [frozen_copy(model, teacher) for teacher in config.teacher.split(",")] if config.teacher else None
    optimizer = build_optimizer(model, config)
    forward = torch.compile(model.image) if config.compiled else model.image
    frozen = torch.compile(teacher) if config.compiled else teacher
    rng = np.random.default_rng(config.seed)
    shown = FOCUS if config.focus else REPEATS
    repeats = np.array([shown.get(pairs.rows[row]["source"], 1) for row in parts.train])
    model.train()
    queue: list[Tensor] = []
    started = time.time()
    for step in range(config.steps):
        progress = max(step / config.steps, (time.time() - started) / config.seconds)
        if progress >= 1:
            break
        side = current_side(progress, config)
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * schedule(progress)
        if not queue:
            queue = list(batches(parts.train, repeats, batch=config.batch, rng=rng).to(device))
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            terms = step_losses(model, (forward, frozen), tables, queue.pop(), side=side, config=config,
                                places=places, earlier=earlier)  # fmt: skip
            loss = torch.stack(list(terms.values())).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        update_average(average, model, min(config.average, (step + 1) / (step + 20)))
        if step % 50 == 0:
            say(step=step, **{name: round(value.item(), 4) for name, value in terms.items()},
                scales=[round(v, 1) for v in model.scales().tolist()])  # fmt: skip
        if (step + 1) % config.validate_every == 0:
            say(step=step + 1, average=validate(average, pairs, parts, classes, config, vocabulary, device))
    begun = build_model(config, device)[0] if config.start else average
    best = (0.0, 0.0)
    for share in (0.0, 0.25, 0.5) if config.start else (0.0,):
        for mean_share in (config.mean_share, 0.3):
            tried = replace(config, mean_share=mean_share)
            found = validate(mix(average, begun, share), pairs, parts, classes, tried, vocabulary, device)
            say(step=step + 1, share_of_start=share, mean_share=mean_share, average=found)
            best = max(best, (found["R@1"] + found["R@5"] + found["R@10"], share))
    say(saved_share_of_start=best[1])
    save(mix(average, begun, best[1]), out, config.name)


def mix(model: Model, other: Model, share: float) -> Model:
    """The weights between two models, `share` of the way to `other`."""
    mixed = copy.deepcopy(model)
    update_average(mixed, other, 1 - share)
    return mixed


if __name__ == "__main__":
    train(parse())
