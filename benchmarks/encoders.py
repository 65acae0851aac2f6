"""How fast each family of encoders is, and how much memory it takes, at the size that people use.

    python benchmarks/encoders.py [--device cpu] [--images 4] [--only clip,dinov2]

Each model has the architecture and the size of a published one and random weights: speed and memory do not depend on
what the weights are. It is saved as its makers would and loaded by its spec in a process of its own, which prepares and
embeds made-up photographs with one thread. On the CPU the figure is processor time, which other programs on the machine
change little; on another device it is time by the clock. `mini` is measured in the same run, and the last column says
how many times as long a family takes. Memory is the peak of the process, on a GPU that of its memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wherein.encoders import load
from wherein.encoders.hf.runtime import library, torch_for, transformers_for
from wherein.images.image import decode

MEAN, STD = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]


def save(folder: Path, network: str, config: Any, *, side: int) -> None:
    """A model with random weights, in half precision to save the disk, and its preprocessing."""
    transformers, torch = transformers_for("benchmark"), torch_for("benchmark")
    made = getattr(transformers, network)(config).to(torch.float16)
    made.save_pretrained(folder)
    size = {"height": side, "width": side}
    transformers.ViTImageProcessorPil(size=size, image_mean=MEAN, image_std=STD).save_pretrained(folder)


def clip(folder: Path) -> str:
    """CLIP ViT-B/16 at 224."""
    transformers = transformers_for("benchmark")
    save(folder, "CLIPModel", transformers.CLIPConfig(vision_config={"patch_size": 16}), side=224)
    return f"hf:{folder}"


def naclip(folder: Path) -> str:
    """The same CLIP with neighbour-aware patches."""
    return clip(folder).replace("hf:", "naclip:")


def siglip(folder: Path) -> str:
    """SigLIP base, 16 pixels a patch, at 224; SigLIP 2 of a fixed size has the same tower for images."""
    save(folder, "SiglipModel", transformers_for("benchmark").SiglipConfig(), side=224)
    return f"hf:{folder}"


def blip(folder: Path) -> str:
    """BLIP base at 384."""
    config = transformers_for("benchmark").BlipConfig(vision_config={"image_size": 384})
    save(folder, "BlipForImageTextRetrieval", config, side=384)
    return f"hf:{folder}"


def dino(folder: Path) -> str:
    """DINO ViT-B/16 at 224."""
    save(folder, "ViTModel", transformers_for("benchmark").ViTConfig(), side=224)
    return f"hf:{folder}"


def dinov2(folder: Path) -> str:
    """DINOv2 base, 14 pixels a patch, at 224."""
    save(folder, "Dinov2Model", transformers_for("benchmark").Dinov2Config(patch_size=14, image_size=518), side=224)
    return f"hf:{folder}"


def dinov3(folder: Path) -> str:
    """DINOv3 ViT-B/16 at 224."""
    base = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    config = transformers_for("benchmark").DINOv3ViTConfig(**base, patch_size=16, num_register_tokens=4)
    save(folder, "DINOv3ViTModel", config, side=224)
    return f"hf:{folder}"


def openclip(folder: Path) -> str:
    """open_clip's ViT-B-16 at 224."""
    folder.mkdir()
    network = library("open_clip", "benchmark").create_model("ViT-B-16")
    library("safetensors.torch", "benchmark").save_file(network.state_dict(), folder / "weights.safetensors")
    return f"openclip:ViT-B-16/{folder / 'weights.safetensors'}"


FAMILIES: dict[str, Callable[[Path], str]] = {
    "mini": lambda _: "mini",
    "clip": clip,
    "naclip": naclip,
    "siglip": siglip,
    "blip": blip,
    "dino": dino,
    "dinov2": dinov2,
    "dinov3": dinov3,
    "openclip": openclip,
}


def measure(spec: str, *, device: str, images: int) -> dict[str, float]:
    """Milliseconds an image and the peak of memory, after one batch that loads the weights."""
    encoder = load(spec, threads=1, device=device)
    random = np.random.default_rng(0)
    photos = [decode(random.integers(0, 256, (480, 640, 3), dtype=np.uint8)) for _ in range(images)]
    encoder.images(encoder.prepare(photos[0])[None])
    clock = time.process_time if encoder.device == "cpu" else time.perf_counter
    started = clock()
    encoder.images(np.stack([encoder.prepare(photo) for photo in photos]))
    spent = 1000 * (clock() - started) / images
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if encoder.device.startswith("cuda"):
        peak = torch_for("benchmark").cuda.max_memory_allocated() / 2**20
    return {"ms": spent, "MB": peak, "patches": 0 if encoder.grid_hw is None else float(np.prod(encoder.grid_hw))}


def main() -> None:
    """Print a table, one line a family."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--only", default=",".join(FAMILIES))
    parser.add_argument("--spec", help="measure this one here, and print JSON; the table is made of such processes")
    arguments = parser.parse_args()
    if arguments.spec:
        device = "cpu" if arguments.spec == "mini" else arguments.device
        print(json.dumps(measure(arguments.spec, device=device, images=arguments.images)))
        return
    mini = None
    print("| family | ms an image | times mini | peak MB | patches |\n|---|---|---|---|---|")
    for name in dict.fromkeys(["mini", *arguments.only.split(",")]):
        with tempfile.TemporaryDirectory() as home:
            spec = FAMILIES[name](Path(home) / "model")
            words = ["--spec", spec, "--device", arguments.device, "--images", str(arguments.images)]
            done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        mini = mini or found["ms"]
        times = found["ms"] / mini
        print(
            f"| {name} | {found['ms']:.0f} | {times:.1f} | {found['MB']:.0f} | {found['patches']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
