"""Everything a training step draws from, tokenised once and kept on the device."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import losses
import texts as wording
import vocabulary as words
from config import Config
from data import Pairs
from towers import TextTower

CAPTION_TOKENS, CLASS_TOKENS, NOUN_TOKENS = 32, 20, 48
MASK_TOKEN, LAST_SPECIAL_TOKEN = 103, 103


@dataclass(frozen=True)
class Tables:
    """Everything a step draws from, on the device."""

    pictures: Tensor
    tokens: Tensor
    varied: Tensor
    text_ids: Tensor
    main: Tensor
    main_count: Tensor
    extra: Tensor
    extra_count: Tensor
    cut_tokens: Tensor
    cut_shared: Tensor
    seen_class: Tensor
    text_reference: Tensor
    picture_reference: Tensor
    noun_tokens: Tensor
    noun_reference: Tensor
    noun_weight: Tensor


def unit(x: Tensor) -> Tensor:
    """Unit rows in float32."""
    return F.normalize(x.float(), dim=-1)


def pad_table(lists: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Ragged lists as `(n, widest)` and their lengths."""
    width = max(1, *map(len, lists))
    table = torch.tensor([row + [0] * (width - len(row)) for row in lists])
    return table, torch.tensor([len(row) for row in lists])


def build_tables(
    pairs: Pairs,
    vocabulary: words.Vocabulary,
    teacher: TextTower,
    *,
    config: Config,
    unseen: list[int],
    device: torch.device,
) -> Tables:
    """Tokenise all texts once and move everything to the device."""
    rng = random.Random(config.seed)
    numbers: dict[str, int] = {}
    added = kin(pairs, vocabulary)
    main, extra = (
        [[numbers.setdefault(text, len(numbers)) for text in row] for row in side]
        for side in (pairs.main, [own + more for own, more in zip(pairs.extra, added, strict=True)])
    )
    tokenizers = {n: wording.load_tokenizer(Path(config.data) / "tokenizer.json", length=n)
                  for n in (CAPTION_TOKENS, CLASS_TOKENS, NOUN_TOKENS)}  # fmt: skip
    cuts = [words.draw_cut(vocabulary, rng) for _ in range(config.cuts)]
    seen = torch.ones(1000)
    if not config.whole:
        seen[unseen] = 0
    token_rows = torch.from_numpy(wording.encode(list(numbers), tokenizers[CAPTION_TOKENS])).to(device)
    references = embed_frozen(teacher, token_rows)
    picture_references = torch.stack([references[torch.tensor(row, device=device)].mean(0) for row in main])
    nouns = vocabulary.nouns
    spoken = [rng.choice(words.TEMPLATES).format(noun.word) for noun in nouns]
    explained = torch.from_numpy(wording.encode([noun.explained for noun in nouns], tokenizers[NOUN_TOKENS])).to(device)
    bare: dict[str, int] = {}
    ids = torch.tensor([bare.setdefault(pairs.meaning.get(text) or bare_name(text), len(bare)) for text in numbers])
    slips = wording.encode([wording.vary(text, rng) for text in numbers], tokenizers[CAPTION_TOKENS])
    tables = (
        torch.from_numpy(pairs.pictures), token_rows, torch.from_numpy(slips), ids, *pad_table(main), *pad_table(extra),
        torch.from_numpy(np.stack([wording.encode(t, tokenizers[CLASS_TOKENS]) for t, _ in cuts])),
        torch.tensor([shared for _, shared in cuts]).float(), seen,
        references, unit(picture_references),
        torch.from_numpy(wording.encode(spoken, tokenizers[CLASS_TOKENS])), embed_frozen(teacher, explained),
        torch.tensor([noun.weight for noun in nouns]),
    )  # fmt: skip
    return Tables(*(table.to(device) for table in tables))


def kin(pairs: Pairs, vocabulary: words.Vocabulary) -> list[list[str]]:
    """For each named photograph, other words for its name and the kind it is of, out of WordNet."""
    said = {noun.word: noun.explained.removeprefix(f"{noun.word}, ") for noun in vocabulary.nouns}
    same: dict[str, list[str]] = {}
    for word, explained in said.items():
        same.setdefault(explained, []).append(word)
    found = []
    for row in pairs.rows:
        name = row["label"].lower() if "label" in row else ""
        broader = said[name].split(",")[0].split(":")[0] if name in said else ""
        others = [word for word in same.get(said.get(name, ""), []) if word != name]
        found.append([f"{name}, a kind of {broader}", *others[:3]] if name in said else [])
    return found


@torch.no_grad()
def embed_frozen(teacher: TextTower, tokens: Tensor) -> Tensor:
    """The sentence encoder's own unit embeddings of token rows."""
    with torch.autocast(tokens.device.type, dtype=torch.bfloat16, enabled=tokens.device.type == "cuda"):
        return torch.cat([unit(teacher.pooled(part, part != 0)) for part in tokens.split(4096)])


def bare_name(text: str) -> str:
    """What a short text names, without the wording around it; a long text is itself."""
    for form in (*wording.NAME_WORDINGS, *wording.DRAWN_WORDINGS):
        start = form.removesuffix("{}")
        if len(start) > 4:
            text = text.removeprefix(start)
    return text.lower().removeprefix("a ").removeprefix("an ").removeprefix("the ").strip(" .")


def draw_texts(tables: Tables, index: Tensor, *, share: float) -> Tensor:
    """Text numbers for pictures: mostly a main text, now and then an extra one."""
    chance = torch.rand(2, len(index), device=index.device)
    main = tables.main[index].gather(1, (chance[0] * tables.main_count[index]).long()[:, None])[:, 0]
    extra = tables.extra[index].gather(1, (chance[0] * tables.extra_count[index]).long()[:, None])[:, 0]
    return torch.where((chance[1] < share) & (tables.extra_count[index] > 0), extra, main)


def text_targets(tables: Tables, index: Tensor, chosen: Tensor, *, share: float) -> Tensor:
    """Which texts fit which pictures: the same text surely, and by `share` those that mean nearly the same."""
    target = losses.same_text(tables.text_ids[chosen])
    if share == 0:
        return target
    near = tables.picture_reference[index] @ tables.text_reference[chosen].T
    return (1 - share) * target + share * (near / 0.06).softmax(-1)


def hear(tables: Tables, chosen: Tensor, *, slips: float) -> Tensor:
    """Tokens of texts, now and then misspelled or in the plural."""
    slipped = torch.rand(len(chosen), 1, device=chosen.device) < slips
    return torch.where(slipped, tables.varied[chosen], tables.tokens[chosen])


def mask_words(tokens: Tensor, share: float) -> Tensor:
    """Hide some words, so that no caption is learnt by heart."""
    hidden = (torch.rand(tokens.shape, device=tokens.device) < share) & (tokens > LAST_SPECIAL_TOKEN)
    return tokens.masked_fill(hidden, MASK_TOKEN)
