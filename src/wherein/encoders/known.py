"""Models that are known to be good: their size, what they read, their licence, and what the papers say of them.

Names, sizes (all towers together), languages and licences were written down without a look at the models' pages, which
could not be reached: check a licence there before you rely on it. Published figures are those of the two benchmark
papers that compare encoders: SearchAD (MAP of text queries on its test set, zero-shot) and FORB (mAP@5 over all its
object types), of the variant that the paper names, which is the one listed here or its nearest kin on the hub.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT: Final = "mini"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model by its spec."""

    spec: str
    does: str
    """`pair` (images and texts), `images`, `detector`, `segmenter` or `features`."""
    millions: int
    """Parameters."""
    dim: int | None
    """Of an embedding; None where it makes none."""
    input: str
    """The size it looks at, in pixels."""
    languages: str
    licence: str
    searchad_map: float | None = None
    forb_map5: float | None = None

    @property
    def gigabytes(self) -> float:
        """Its weights in half precision."""
        return self.millions * 2 / 1000


KNOWN: Final = (
    KnownModel("mini", "pair", 36, 512, "256²", "English", "Apache-2.0"),
    KnownModel("hf:openai/clip-vit-base-patch32", "pair", 151, 512, "224²", "English", "MIT"),
    KnownModel("hf:openai/clip-vit-large-patch14-336", "pair", 428, 768, "336²", "English", "MIT", forb_map5=89.36),
    KnownModel("openclip:ViT-B-32/laion2b_s34b_b79k", "pair", 151, 512, "224²", "English", "MIT"),
    KnownModel("openclip:ViT-L-14/datacomp_xl_s13b_b90k", "pair", 428, 768, "224²", "English", "MIT", 7.45),
    KnownModel("hf:facebook/metaclip-2-worldwide-huge-378", "pair", 1860, 1024, "378²", "300", "CC-BY-NC-4.0", 9.41),
    KnownModel("hf:google/siglip2-base-patch16-224", "pair", 375, 768, "224²", "109", "Apache-2.0"),
    KnownModel("hf:google/siglip2-base-patch16-naflex", "pair", 375, 768, "256 patches", "109", "Apache-2.0"),
    KnownModel("hf:google/siglip2-large-patch16-512", "pair", 882, 1024, "512²", "109", "Apache-2.0", 8.57),
    KnownModel("hf:Salesforce/blip-itm-large-coco", "pair", 447, 256, "384²", "English", "BSD-3-Clause", None, 74.11),
    KnownModel("hf:Salesforce/blip2-itm-vit-g", "pair", 1173, 256, "224²", "English", "MIT", 9.14, 81.73),
    KnownModel("naclip:openai/clip-vit-large-patch14-336", "pair", 428, 768, "336²", "English", "MIT", 9.59),
    KnownModel("radio:nvidia/C-RADIOv3-L", "pair", 320, 1152, "any", "English", "NVIDIA Open Model License", 9.49),
    KnownModel("naradio:nvidia/C-RADIOv3-L", "pair", 320, 1152, "any", "English", "NVIDIA Open Model License", 14.27),
    KnownModel("hf:facebook/dino-vits8", "images", 22, 384, "224²", "–", "Apache-2.0", None, 55.20),
    KnownModel("hf:facebook/dinov2-large", "images", 304, 1024, "224²", "–", "Apache-2.0", None, 68.86),
    KnownModel("hf:facebook/dinov3-vitl16-pretrain-lvd1689m", "images", 303, 1024, "224²", "–", "DINOv3 License"),
    KnownModel(
        "hf:IDEA-Research/grounding-dino-base", "detector", 233, None, "800…1333", "English", "Apache-2.0", 5.25
    ),
    KnownModel("hf:google/owlvit-base-patch32", "detector", 153, None, "768²", "English", "Apache-2.0"),
    KnownModel("hf:google/owlv2-base-patch16-ensemble", "detector", 155, None, "960²", "English", "Apache-2.0"),
    KnownModel("hf:facebook/sam-vit-base", "segmenter", 94, None, "1024", "–", "Apache-2.0"),
    KnownModel("hf:facebook/sam2.1-hiera-small", "segmenter", 46, None, "1024²", "–", "Apache-2.0"),
)
"""The models, the default first."""
HEADER: Final = (
    "model",
    "does",
    "millions",
    "GB, half",
    "dim",
    "input",
    "languages",
    "licence",
    "SearchAD MAP",
    "FORB mAP@5",
)


def columns(model: KnownModel) -> tuple[str, ...]:
    """A row of the table of models, under HEADER."""
    figures = ("–" if one is None else f"{one:.2f}" for one in (model.searchad_map, model.forb_map5))
    dim = "–" if model.dim is None else str(model.dim)
    return (
        model.spec,
        model.does,
        str(model.millions),
        f"{model.gigabytes:.2f}",
        dim,
        model.input,
        model.languages,
        model.licence,
        *figures,
    )
