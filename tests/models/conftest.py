"""Tiny models of every family, built from a configuration with random weights and saved as their makers would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from wherein.encoders.hf.runtime import library, torch_for, transformers_for

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "red", "green", "blue", "tree", "dog", "photo", "of", ".", "[MASK]"]
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
IMAGE = {**SMALL, "image_size": 32, "patch_size": 8}
TEXT = {**SMALL, "vocab_size": len(WORDS), "max_position_embeddings": 16}
MEAN, STD = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]


def save_tokenizer(folder: Path) -> None:
    """A tokenizer of whole words that begins a text with [CLS] and ends it with [SEP]."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers_for("toy").PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token="[MASK]", **special
    ).save_pretrained(folder)


def save(folder: Path, network: str, config: Any, processor: Any, *, text: bool = True) -> Path:
    """A folder as `save_pretrained` writes it: configuration, random weights, preprocessing, tokenizer."""
    torch, transformers = torch_for("toy"), transformers_for("toy")
    torch.manual_seed(0)
    made = getattr(transformers, network)(config).eval()
    for name, parameter in made.named_parameters():  # large enough that nothing left out goes unnoticed
        if parameter.ndim > 1 or (name.endswith("bias") and parameter.ndim):
            torch.nn.init.normal_(parameter, std=0.2)
    made.save_pretrained(folder)
    processor.save_pretrained(folder)
    if text:
        save_tokenizer(folder)
    return folder


def _processor(name: str, **settings: Any) -> Any:
    return getattr(transformers_for("toy"), f"{name}Pil")(**settings)


def _cropping(name: str = "CLIPImageProcessor") -> Any:
    size = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    return _processor(name, **size, image_mean=MEAN, image_std=STD)


def clip(folder: Path) -> Path:
    """OpenAI's CLIP."""
    transformers = transformers_for("toy")
    text = {**TEXT, "eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0}
    config = transformers.CLIPConfig(text_config=text, vision_config=IMAGE, projection_dim=24)
    return save(folder, "CLIPModel", config, _cropping())


def metaclip2(folder: Path) -> Path:
    """MetaCLIP 2."""
    transformers = transformers_for("toy")
    text = {**TEXT, "eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0}
    config = transformers.MetaClip2Config(text_config=text, vision_config=IMAGE, projection_dim=24)
    return save(folder, "MetaClip2Model", config, _cropping())


def siglip(folder: Path) -> Path:
    """SigLIP, and SigLIP 2 of a fixed size."""
    transformers = transformers_for("toy")
    config = transformers.SiglipConfig(text_config={**TEXT, "projection_size": 32}, vision_config=IMAGE)
    return save(folder, "SiglipModel", config, _processor("SiglipImageProcessor", size={"height": 32, "width": 32}))


def siglip2(folder: Path) -> Path:
    """SigLIP 2 that keeps the aspect."""
    transformers = transformers_for("toy")
    seen = {**SMALL, "num_patches": 16, "patch_size": 8}
    config = transformers.Siglip2Config(text_config={**TEXT, "projection_size": 32}, vision_config=seen)
    return save(folder, "Siglip2Model", config, _processor("Siglip2ImageProcessor", patch_size=8, max_num_patches=16))


def blip(folder: Path) -> Path:
    """BLIP for retrieval."""
    transformers = transformers_for("toy")
    text = {
        **TEXT,
        "encoder_hidden_size": 32,
        "bos_token_id": 2,
        "sep_token_id": 3,
        "eos_token_id": 3,
        "pad_token_id": 0,
    }
    config = transformers.BlipConfig(text_config=text, vision_config=IMAGE, image_text_hidden_size=24)
    size = {"size": {"height": 32, "width": 32}}
    return save(folder, "BlipForImageTextRetrieval", config, _processor("BlipImageProcessor", **size))


def blip2(folder: Path) -> Path:
    """BLIP-2 for retrieval, with 32 query vectors."""
    transformers = transformers_for("toy")
    asked = {**TEXT, "encoder_hidden_size": 32, "use_qformer_text_input": True}
    config = transformers.Blip2Config(
        vision_config=IMAGE,
        qformer_config=asked,
        text_config={"model_type": "opt", "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1},
        num_query_tokens=32,
        image_text_hidden_size=24,
    )
    size = {"size": {"height": 32, "width": 32}}
    return save(folder, "Blip2ForImageTextRetrieval", config, _processor("BlipImageProcessor", **size))


def dino(folder: Path) -> Path:
    """DINO, a plain vision transformer."""
    config = transformers_for("toy").ViTConfig(**IMAGE)
    processor = _processor("ViTImageProcessor", size={"height": 32, "width": 32})
    return save(folder, "ViTModel", config, processor, text=False)


def dinov2(folder: Path) -> Path:
    """DINOv2."""
    config = transformers_for("toy").Dinov2Config(**{**IMAGE, "mlp_ratio": 2})
    return save(folder, "Dinov2Model", config, _cropping("BitImageProcessor"), text=False)


def dinov2_registers(folder: Path) -> Path:
    """DINOv2 with four registers."""
    config = transformers_for("toy").Dinov2WithRegistersConfig(**{**IMAGE, "mlp_ratio": 2, "num_register_tokens": 4})
    return save(folder, "Dinov2WithRegistersModel", config, _cropping("BitImageProcessor"), text=False)


def dinov3(folder: Path) -> Path:
    """DINOv3."""
    config = transformers_for("toy").DINOv3ViTConfig(**{**IMAGE, "num_register_tokens": 4})
    processor = transformers_for("toy").DINOv3ViTImageProcessor(size={"height": 32, "width": 32})
    return save(folder, "DINOv3ViTModel", config, processor, text=False)


def radio(folder: Path) -> Path:
    """RADIO as transformers has it: images alone."""
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 8, "max_img_size": 64}
    config = transformers_for("toy").RadioConfig(**shape, num_cls_tokens=2, num_registers=1, mlp_ratio=2.0)
    return save(folder, "RadioModel", config, _cropping(), text=False)


def openclip(folder: Path) -> Path:
    """A folder that open_clip reads, with its own tokenizer of 49,408 word pieces."""
    open_clip = library("open_clip", "toy")
    torch_for("toy").manual_seed(0)
    described = {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 8},
        "text_cfg": {"context_length": 12, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2},
    }
    made = open_clip.CLIP(**described)
    folder.mkdir()
    library("safetensors.torch", "toy").save_file(made.state_dict(), folder / "open_clip_model.safetensors")
    size = {"size": 32, "mean": MEAN, "std": STD, "interpolation": "bicubic", "resize_mode": "shortest"}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": described, "preprocess_cfg": size}))
    return folder


def grounding_dino(folder: Path) -> Path:
    """Grounding DINO over a tiny Swin and a tiny BERT."""
    transformers = transformers_for("toy")
    shape = {"embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1], "window_size": 2, "image_size": 64}
    seen = transformers.SwinConfig(**shape, out_features=["stage2", "stage3", "stage4"])
    text = transformers.BertConfig(**{**TEXT, "max_position_embeddings": 64})
    layers = {"encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "d_model": 64}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_queries": 20, "max_text_len": 32}
    config = transformers.GroundingDinoConfig(backbone_config=seen, text_config=text, **layers, **heads)
    size = {"size": {"shortest_edge": 64, "longest_edge": 96}}
    processor = _processor("GroundingDinoImageProcessor", **size)
    return save(folder, "GroundingDinoForObjectDetection", config, processor)


def _owl(folder: Path, name: str) -> Path:
    transformers = transformers_for("toy")
    text = {**TEXT, "eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0}
    config = getattr(transformers, f"{name}Config")(text_config=text, vision_config=IMAGE, projection_dim=32)
    processor = _processor(f"{name}ImageProcessor", size={"height": 32, "width": 32})
    return save(folder, f"{name}ForObjectDetection", config, processor)


def owlvit(folder: Path) -> Path:
    """OWL-ViT."""
    return _owl(folder, "OwlViT")


def owlv2(folder: Path) -> Path:
    """OWLv2."""
    return _owl(folder, "Owlv2")


def sam(folder: Path) -> Path:
    """Segment Anything."""
    shape = {"output_channels": 16, "image_size": 64, "patch_size": 8, "window_size": 4, "global_attn_indexes": [1]}
    seen = {**SMALL, **shape, "num_pos_feats": 8, "mlp_dim": 32}
    prompts = {"hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 4}
    masks = {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16}
    config = transformers_for("toy").SamConfig(
        vision_config=seen, prompt_encoder_config=prompts, mask_decoder_config=masks
    )
    size = {"size": {"longest_edge": 64}, "pad_size": {"height": 64, "width": 64}}
    return save(folder, "SamModel", config, _processor("SamImageProcessor", **size), text=False)


def sam2(folder: Path) -> Path:
    """Segment Anything 2."""
    transformers = transformers_for("toy")
    shape = {"hidden_size": 8, "image_size": [64, 64], "blocks_per_stage": [1, 1, 2, 1]}
    stages = {"embed_dim_per_stage": [8, 16, 32, 64], "num_attention_heads_per_stage": [1, 1, 2, 2]}
    more = {"window_size_per_stage": [8, 4, 14, 7], "global_attention_blocks": [3]}
    trunk = transformers.Sam2HieraDetConfig(**shape, **stages, **more)
    config = transformers.Sam2Config(
        vision_config={
            "backbone_config": trunk,
            "backbone_channel_list": [64, 32, 16, 8],
            "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
            "fpn_hidden_size": 16,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4},
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
    )
    processor = transformers.Sam2ImageProcessor(size={"height": 64, "width": 64})
    return save(folder, "Sam2Model", config, processor, text=False)


def superpoint(folder: Path) -> Path:
    """SuperPoint."""
    shape = {"encoder_hidden_sizes": [8, 8, 16, 16], "decoder_hidden_size": 16, "descriptor_decoder_dim": 32}
    config = transformers_for("toy").SuperPointConfig(**shape, keypoint_threshold=0.001)
    return save(folder, "SuperPointForKeypointDetection", config, _processor("SuperPointImageProcessor"), text=False)


def lightglue(folder: Path) -> Path:
    """LightGlue over SuperPoint."""
    transformers = transformers_for("toy")
    shape = {"encoder_hidden_sizes": [8, 8, 16, 16], "decoder_hidden_size": 16, "descriptor_decoder_dim": 32}
    corners = transformers.SuperPointConfig(**shape, keypoint_threshold=0.001, max_keypoints=60)
    config = transformers.LightGlueConfig(
        keypoint_detector_config=corners,
        descriptor_dim=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        filter_threshold=0.0,
    )
    processor = _processor("LightGlueImageProcessor", size={"height": 96, "width": 128})
    return save(folder, "LightGlueForKeypointMatching", config, processor, text=False)


def efficientloftr(folder: Path) -> Path:
    """EfficientLoFTR."""
    transformers = transformers_for("toy")
    config = transformers.EfficientLoFTRConfig(
        stage_num_blocks=[1, 1, 1, 1],
        out_features=[8, 8, 16, 32],
        stage_stride=[2, 1, 2, 2],
        hidden_size=32,
        num_attention_layers=1,
        num_attention_heads=8,
        coarse_matching_threshold=0.0,
        fine_matching_slice_dim=4,
        coarse_matching_border_removal=0,
    )
    processor = _processor("EfficientLoFTRImageProcessor", size={"height": 96, "width": 128})
    return save(folder, "EfficientLoFTRForKeypointMatching", config, processor, text=False)


FAMILIES: dict[str, Callable[[Path], Path]] = {
    "clip": clip,
    "metaclip2": metaclip2,
    "siglip": siglip,
    "siglip2": siglip2,
    "blip": blip,
    "blip2": blip2,
    "dino": dino,
    "dinov2": dinov2,
    "dinov2_registers": dinov2_registers,
    "dinov3": dinov3,
    "radio": radio,
    "openclip": openclip,
    "grounding_dino": grounding_dino,
    "owlvit": owlvit,
    "owlv2": owlv2,
    "sam": sam,
    "sam2": sam2,
    "superpoint": superpoint,
    "lightglue": lightglue,
    "efficientloftr": efficientloftr,
}


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`toy("clip")` is the folder of a tiny CLIP, built once a session; nothing may be written there."""
    home, made = tmp_path_factory.mktemp("toys"), dict[str, Path]()

    def build(name: str) -> Path:
        if name not in made:
            made[name] = FAMILIES[name](home / name)
        return made[name]

    return build


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of a model may reach for a hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
