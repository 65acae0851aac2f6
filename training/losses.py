"""What training minimises. Embeddings are unit rows; scales are inverse temperatures."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross entropy against rows of probabilities."""
    return -(target * F.log_softmax(logits.float(), -1)).sum(-1).mean()


def same_text(ids: Tensor) -> Tensor:
    """Rows of probabilities: every picture whose text is the same is an equally right answer."""
    same = (ids[:, None] == ids[None]).float()
    return same / same.sum(1, keepdim=True)


def contrast(images: Tensor, texts: Tensor, *, scale: Tensor, target: Tensor) -> Tensor:
    """InfoNCE both ways."""
    logits = scale * images @ texts.T
    return (soft_cross_entropy(logits, target) + soft_cross_entropy(logits.T, target.T)) / 2


def pooled_similarity(patches: Tensor, texts: Tensor, *, sharpness: float) -> Tensor:
    """`(n, m)`: each text against each image's patches `(n, p, d)`, weighted towards the patches it fits best."""
    similarity = torch.einsum("npd,md->nmp", patches, texts).float()
    return ((sharpness * similarity).softmax(-1) * similarity).sum(-1)


def contrast_patches(patches: Tensor, texts: Tensor, *, scale: Tensor, target: Tensor) -> Tensor:
    """InfoNCE on text-weighted patches, so that a text is found where its thing is."""
    logits = scale * pooled_similarity(patches, texts, sharpness=10.0)
    return (soft_cross_entropy(logits, target) + soft_cross_entropy(logits.T, target.T)) / 2


def name_classes(images: Tensor, names: Tensor, *, scale: Tensor, shared: Tensor, target: Tensor) -> Tensor:
    """The teacher's class probabilities as similarities to class names.

    Classes named by a common ancestor have equal rows in `names`; `shared (c,)` counts them, and taking its
    logarithm off makes their sum the ancestor's probability.
    """
    return soft_cross_entropy(scale * images @ names.T - shared.log(), target)


def keep_classes(logits: Tensor, teacher: Tensor) -> Tensor:
    """Learning without forgetting: the classifier's answers on the trained features stay the teacher's."""
    return F.kl_div(logits.float().log_softmax(-1), teacher, reduction="batchmean")


def recognise(looks: Tensor, images: Tensor, *, scale: Tensor) -> Tensor:
    """Second looks `(m, d)` must find the first look of the same picture among `images (n, d)`, the first m of them."""
    return F.cross_entropy((scale * looks @ images.T).float(), torch.arange(len(looks), device=looks.device))


def keep_likeness(images: Tensor, reference: Tensor, *, temperature: float = 0.07) -> Tensor:
    """Each picture keeps the neighbours that it has in `reference (n, n)`, similarities of earlier runs."""
    hidden = torch.eye(len(images), dtype=torch.bool, device=images.device)
    target = (reference / temperature).masked_fill(hidden, -1e4).float().softmax(-1)
    return soft_cross_entropy((images @ images.T / temperature).masked_fill(hidden, -1e4), target)


def keep_geometry(words: Tensor, reference: Tensor, *, temperature: float) -> Tensor:
    """Each word keeps the neighbours that its explanation had in the sentence encoder's own space."""
    hidden = torch.eye(len(words), dtype=torch.bool, device=words.device)
    target = (reference @ reference.T / temperature).masked_fill(hidden, -1e4).float().softmax(-1)
    logits = (words @ words.T / temperature).masked_fill(hidden, -1e4)
    return soft_cross_entropy(logits, target)
