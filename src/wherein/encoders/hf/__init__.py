"""Models of transformers: `hf:NAME` loads a hub name or a folder as `save_pretrained` writes it. Needs `wherein[hf]`.

    hf:google/siglip2-base-patch16-224      a name on the hub; HF_HOME and HF_HUB_OFFLINE mean what they usually do
    hf:/models/clip                         a folder
    hf:NAME@448                             another input size: positions are interpolated
    hf:NAME@squash                          the whole image squashed, where the model's own way cuts its sides off
    hf:NAME@REVISION                        a branch, tag or commit of the hub

CLIP and what shares its format (OpenAI, MetaCLIP, MetaCLIP 2), SigLIP, SigLIP 2, BLIP, BLIP-2, DINO, DINOv2, DINOv3
and RADIO: one file each beside this one, chosen by the `model_type` of the model's config.json.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from wherein.encoders.hf.base import TorchEncoder
from wherein.encoders.hf.folders import HubModel, parse_name
from wherein.errors import SpecError

ARCHITECTURES: Final = {
    "clip": "wherein.encoders.hf.clip:ClipEncoder",
    "metaclip_2": "wherein.encoders.hf.clip:ClipEncoder",
    "siglip": "wherein.encoders.hf.siglip:SiglipEncoder",
    "siglip2": "wherein.encoders.hf.siglip2:Siglip2Encoder",
    "blip": "wherein.encoders.hf.blip:BlipEncoder",
    "blip-2": "wherein.encoders.hf.blip2:Blip2Encoder",
    "vit": "wherein.encoders.hf.dino:DinoEncoder",
    "dinov2": "wherein.encoders.hf.dino:DinoEncoder",
    "dinov2_with_registers": "wherein.encoders.hf.dino:DinoEncoder",
    "dinov3_vit": "wherein.encoders.hf.dino:Dinov3Encoder",
    "radio": "wherein.encoders.radio:RadioEncoder",
}
"""`model_type` of a config.json → the class that runs it."""


def HfEncoder(variant: str, **options: Any) -> TorchEncoder:  # noqa: N802 — families are named as classes
    """The encoder of a model, chosen by what its config.json says it is."""
    model = HubModel(f"hf:{variant}", parse_name(variant))
    kind = str(model.config.get("model_type"))
    if kind not in ARCHITECTURES:
        raise SpecError(
            f"hf:{variant}: is a {kind!r} model, which is no encoder that wherein knows: {', '.join(ARCHITECTURES)}."
        )
    module, _, name = ARCHITECTURES[kind].partition(":")
    made: TorchEncoder = getattr(import_module(module), name)(model, **options)
    return made
