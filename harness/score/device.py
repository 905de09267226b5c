"""The device that models run on, chosen without importing torch: that takes seconds, and belongs to the workers."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from pathlib import Path

AUTO = "auto"
_CUDA = (Path("/dev/nvidia0"), Path("/proc/driver/nvidia/version"))


def device_of(asked: str) -> str:
    """`asked`, or for "auto" what this machine and the installed torch have."""
    if asked != AUTO:
        return asked
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "cpu"
    if version.endswith("+cpu"):
        return "cpu"
    if any(place.exists() for place in _CUDA):
        return "cuda"
    return "mps" if (sys.platform, platform.machine()) == ("darwin", "arm64") else "cpu"
