"""Texts of a script (`say:`) → sound, by an installed voice, made once and kept by content."""

from __future__ import annotations

from harness.spoken.cache import Speaker, speaker
from harness.spoken.voices import VOICES

__all__ = ["VOICES", "Speaker", "speaker"]
