"""onnxruntime with its telemetry off: its wheel sends events to its maker unless it is told not to, before it loads."""

from __future__ import annotations

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime
from onnxruntime import quantization

onnxruntime.disable_telemetry_events()

__all__ = ["onnxruntime", "quantization"]
