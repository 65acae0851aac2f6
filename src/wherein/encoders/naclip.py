"""Neighbour-aware CLIP: `naclip:NAME` runs any CLIP of `hf:` with patches that attend to their neighbours. (NACLIP)

In the last block a patch attends by the likeness of keys, plus a Gaussian over the distance of patches; the block's
MLP and its shortcut are left out. Texts and whole images are embedded as the model itself does.
"""

from __future__ import annotations

from typing import Any, Final

from wherein.encoders.hf.clip import ClipEncoder
from wherein.encoders.hf.folders import HubModel, parse_name
from wherein.encoders.hf.runtime import torch_for
from wherein.errors import SpecError

SPREAD: Final = 5.0
"""Standard deviation of the Gaussian, in patches (Hajimiri et al., "Pay Attention to Your Neighbours", 2025)."""


class NaclipEncoder(ClipEncoder):
    """CLIP whose patches say what is at their place."""

    def __init__(self, variant: str, **options: Any) -> None:
        model = HubModel(f"naclip:{variant}", parse_name(variant))
        if model.config.get("model_type") not in ("clip", "metaclip_2"):
            raise SpecError(f"{model.spec}: is no CLIP but {model.config.get('model_type')!r}; use hf:{variant}.")
        super().__init__(model, **options)

    needs_hidden_states = True

    def patch_states(self, seen: Any) -> Any:
        """What the last block's attention gathers of the states before it, and nothing else."""
        states, last = seen.hidden_states[-2], self.network.vision_model.encoder.layers[-1]
        return neighbour_attention(
            last.self_attn, last.layer_norm1(states), grid_hw=self.patch_grid(self._patch), spread=SPREAD, before=1
        )[:, 1:]

    @property
    def _patch(self) -> int:
        return int(self.settings.vision_config.patch_size)


def neighbour_attention(attention: Any, states: Any, *, grid_hw: tuple[int, int], spread: float, before: int) -> Any:
    """What a block's attention module gathers (n, tokens, hidden) if it goes by the likeness of keys and by nearness.

    The first `before` tokens have no place. Understood are modules with projections of their own for keys and values,
    and those with one for all three.
    """
    n, tokens, width = states.shape
    heads = getattr(attention, "num_heads", None) or attention.num_attention_heads
    if hasattr(attention, "qkv"):
        _, keys, values = attention.qkv(states).chunk(3, dim=-1)
    else:
        keys, values = attention.k_proj(states), attention.v_proj(states)
    keys, values = (one.reshape(n, tokens, heads, width // heads).transpose(1, 2) for one in (keys, values))
    near = states.new_zeros((tokens, tokens))
    near[before:, before:] = nearness(grid_hw, spread).to(states)
    likeness = keys @ keys.transpose(-2, -1) * (width // heads) ** -0.5 + near
    gathered = (likeness.softmax(dim=-1) @ values).transpose(1, 2).reshape(n, tokens, width)
    out = next(getattr(attention, name) for name in ("out_proj", "o_proj", "proj") if hasattr(attention, name))
    return out(gathered)


def nearness(grid_hw: tuple[int, int], spread: float) -> Any:
    """(patches, patches): 1 for a patch and itself, less the further apart two lie."""
    torch = torch_for("naclip")
    rows, columns = torch.meshgrid(*(torch.arange(side) for side in grid_hw), indexing="ij")
    places = torch.stack([rows.flatten(), columns.flatten()], dim=1).float()
    return torch.exp(-torch.cdist(places, places).square() / (2 * spread**2))
