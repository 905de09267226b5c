"""Which measures no audio can give, and why: they are about messages, and a recording has none."""

from __future__ import annotations

from typing import Final

from harness.analyze.measuring import VOICE_TO_VOICE
from metrics.table import METRICS
from metrics.turn_taking.lanes import NEEDS_LOG
from metrics.turn_taking.table import TURN_TAKING, turn_taking

_REASONS: Final = (
    (("first_packet_from", "first_text_from", "voice_to_voice_from"), "when frames were sent is in the event log only"),
    (("first_packet",), "packets, and the silence that they begin with, are in the event log only"),
    (("first_text",), "text arrives in messages"),
    (("voice_to_voice_b",), "a player's buffer acts on packets; a recording is one play-out of them"),
    (("silence_padding",), "silence before the voice is told from waiting by packets only"),
    (("commit_to",), "when the turn was committed is in the event log only"),
    (("server_vad",), "the server's word that the user stopped is a message"),
    (("gap_",), "gaps between messages are in the event log only"),
    (("underrun", "gapless"), "silence where audio ran out is told from a pause by packets only"),
    (("real_time_factor",), "when audio arrived, not when it played, is in the event log only"),
    (("reply_duration",), "what was generated and never heard is in no recording"),
    (("send_lateness", "heartbeat"), "it is of the machine that held the dialogue"),
    (("interrupted_",), "what was generated and never heard is in no recording"),
)
_OTHERS: Final = {
    "false_starts": "a reply that was cancelled before it was heard leaves no sound",
    "outcomes": "why no answer came (refused, failed, timed out) is in the event log only",
    "connection_phases": "connecting makes no sound",
}


def not_from_audio() -> dict[str, str]:
    """Measure → why, for every measure of a run that an analysis lacks."""
    needs_log = [name for name in TURN_TAKING if turn_taking(name).needs_log or name == "spurious_speech"]
    names = [name for name in METRICS if name != VOICE_TO_VOICE] + needs_log
    return {name: _reason(name) for name in names} | _OTHERS


def _reason(name: str) -> str:
    return next((why for starts, why in _REASONS if name.startswith(starts)), NEEDS_LOG)
