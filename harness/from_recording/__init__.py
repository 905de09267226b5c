"""From the recording of a real call to a script of what its user said, with the user's own audio."""

from __future__ import annotations

from harness.from_recording.cut import Cut, Written, cut_call

__all__ = ["Cut", "Written", "cut_call"]
