"""Numbers the papers report, to stand beside a run. Keys are paths into the scores document."""

from typing import Final

Reference = tuple[tuple[str, dict[str, float]], ...]

# Test split, percent: MAP, MRP.
_SEARCHAD: Final[dict[str, tuple[float | None, ...]]] = {
    "GroundingDINO, text": (5.25, 6.49),
    "OpenCLIP, text": (7.45, 10.17),
    "SigLIP2, text": (8.57, 11.24),
    "BLIP2, text": (9.14, 11.90),
    "MetaCLIP2, text": (9.41, 12.66),
    "RADIO, text": (9.49, 11.86),
    "NACLIP, text": (9.59, 11.92),
    "NARADIO, text": (14.27, 17.91),
    "BLIP2 fine-tuned, text": (12.06, 15.60),
    "OpenCLIP, image": (3.98, None),
    "RADIO, image": (4.34, None),
    "MetaCLIP2, image": (5.10, None),
    "SigLIP2, image": (6.04, None),
    "NACLIP, image": (6.56, None),
    "GroundingDINO, image": (7.62, None),
    "BLIP2, image": (7.95, None),
    "NARADIO, image": (8.31, None),
    "BLIP2 + RPN regions, image": (12.46, None),
    "BLIP2 fine-tuned, image": (11.13, None),
}
# Percent: mAP@5, t-mAP@5.
_FORB: Final[dict[str, tuple[float | None, ...]]] = {
    "BoW": (78.44, 62.49),
    "BoW + rerank": (80.38, 67.83),
    "FIRe": (88.08, 77.50),
    "DELG": (48.81, 34.92),
    "DELG + rerank": (58.74, 39.47),
    "CLIP": (89.36, 67.23),
    "SLIP": (39.01, 24.43),
    "BLIP": (74.11, 49.98),
    "BLIP2": (81.73, 57.11),
    "DINO": (55.20, 42.28),
    "DINOv2": (68.86, 48.21),
    "DiHT": (84.77, 60.54),
}
# Percent, then mean rank: R@1, R@10, R@100, R@1000, MNR; long text, skippable.
_SUBREGION: Final[dict[str, tuple[float | None, ...]]] = {
    "Whole-Image": (0, 6, 21, 47, 9320),
    "Append": (0, 6, 19, 44, None),
    "static grid, lower": (1, 9, 29, 56, 7715),
    "static grid, higher": (2, 9, 29, 57, 7400),
    "Theoretical": (8, 19, 41, 67, 5684),
}
# Percent mean of mIoU: Medium D, S, then Hard D, S; and mAP@50:5:95 with the DELG ranking, Medium, Hard.
_PIXEL: Final[dict[str, dict[str, tuple[float | None, ...]]]] = {
    "proxford": {
        "SIFT+SP": (10.5, 3.9, 7.1, 2.4, None, None),
        "DELF+SP": (14.5, 5.5, 9.4, 4.1, None, None),
        "DELG+SP": (13.8, 5.2, 8.9, 2.9, 6.1, 6.3),
        "D2R+ASMK": (26.3, None, 21.6, None, 29.6, 22.5),
        "OWL-ViT": (11.4, None, 6.3, None, 13.1, 8.1),
        "OS2D": (13.6, None, 14.0, None, None, None),
        "SSP": (19.7, 34.3, 16.1, 26.1, 37.3, 34.6),
        "HSNet": (30.5, 35.7, 22.7, 25.1, None, None),
        "WarpC-GLUNet": (31.3, 25.4, 21.9, 15.8, 34.3, 36.8),
    },
    "prparis": {
        "SIFT+SP": (14.0, 5.1, 12.4, 4.3, None, None),
        "DELF+SP": (21.3, 7.5, 16.7, 5.5, None, None),
        "DELG+SP": (18.6, 7.2, 13.6, 4.9, 10.9, 8.0),
        "D2R+ASMK": (38.5, None, 35.6, None, 26.3, 25.6),
        "OWL-ViT": (18.0, None, 15.0, None, 8.3, 12.7),
        "OS2D": (15.4, None, 15.1, None, None, None),
        "SSP": (31.4, 48.8, 30.3, 40.4, 47.0, 43.1),
        "HSNet": (39.4, 40.2, 34.7, 32.8, None, None),
        "WarpC-GLUNet": (36.6, 27.3, 26.4, 17.3, 33.9, 28.8),
    },
}
# Percent image-level mAP, as the pixel retrieval paper lists its rankings: Medium, Hard.
_REVISITED: Final[dict[str, dict[str, tuple[float | None, ...]]]] = {
    "roxford5k": {"DELG": (76.3, 55.6), "DELG + HP": (85.7, 70.3)},
    "rparis6k": {"DELG": (86.6, 72.4), "DELG + HP": (92.6, 83.3)},
}
_PIXEL_KEYS: Final = (
    "medium/mIoU/D", "medium/mIoU/S", "hard/mIoU/D", "hard/mIoU/S", "medium/mAP@50:5:95", "hard/mAP@50:5:95",
)  # fmt: skip
_SUBREGION_KEYS: Final = tuple(f"skippable/long/{key}" for key in ("R@1", "R@10", "R@100", "R@1000", "MNR"))


def reference(benchmark: str) -> Reference:
    """The papers' numbers for a benchmark as fractions (mean ranks as they are)."""
    if benchmark == "searchad":
        return _table(_SEARCHAD, ("overall/MAP", "overall/MRP"))
    if benchmark == "forb":
        return _table(_FORB, ("all/overall/mAP@5", "all/overall/t-mAP@5"))
    if benchmark == "subregion":
        return _table(_SUBREGION, _SUBREGION_KEYS)
    if benchmark in _PIXEL:
        return _table(_PIXEL[benchmark], _PIXEL_KEYS)
    return _table(_REVISITED.get(benchmark, {}), ("medium/mAP", "hard/mAP"))


def _table(rows: dict[str, tuple[float | None, ...]], keys: tuple[str, ...]) -> Reference:
    return tuple(
        (
            method,
            {
                key: value if key.endswith("MNR") else value / 100
                for key, value in zip(keys, values, strict=True)
                if value is not None
            },
        )
        for method, values in rows.items()
    )
