"""Whether the length of a reply can be believed, and what else it could be. Its samples are never touched."""

from __future__ import annotations

from metrics.conversation import StatedFormat
from metrics.view import TurnView

REPEATED = "the reply brings again what it brought before, so its length is in doubt"
OTHER_FORMAT = "a WAV header in the audio says another format than the session, so its length is in doubt"
_BITS_AS_PLAYED = 16


def doubt_of(view: TurnView) -> str:
    """Why the length of the reply that gives the figures is in doubt; "" where it is not."""
    if view.heard.repeats is not None:
        return REPEATED
    reply = view.replies.reply
    return OTHER_FORMAT if reply is not None and reply.formats and view.heard.arrivals else ""


def length_flags(view: TurnView) -> list[str]:
    """The lengths that the reply could have, for people."""
    flags, rate_hz = [], view.conversation.rate_hz
    repeats, reply = view.heard.repeats, view.replies.reply
    if repeats is not None:
        came_ms, once_ms = (samples * 1000 / rate_hz for samples in (repeats.came_samples, repeats.once_samples))
        flags.append(f"repeats what was sent: {came_ms:.0f} ms of audio came, {once_ms:.0f} ms without the repeats")
    samples = sum(arrival.samples for arrival in view.heard.arrivals)
    for stated in reply.formats if reply is not None and samples else ():
        flags.append(
            f"length in doubt: {samples * 1000 / rate_hz:.0f} ms as the session has it, {_by(stated, samples)}"
        )
    return flags


def _by(stated: StatedFormat, samples: int) -> str:
    channels = {1: "mono", 2: "stereo"}.get(stated.channels, f"{stated.channels} channels")
    said = f"the WAV header ({stated.rate_hz} Hz, {stated.bits} bit, {channels})"
    bits_per_s = stated.rate_hz * stated.channels * stated.bits
    if not bits_per_s:
        return f"unknown by {said}"
    return f"{samples * _BITS_AS_PLAYED * 1000 / bits_per_s:.0f} ms by {said}"
