"""When each utterance of a call started, relative to what was heard of the other side: the rules, and nothing else.

Positions are samples of the recording. The other side's reply to an utterance begins with its first stretch of speech
that starts after the utterance did; its end is the end of its last stretch before the user speaks again. The first
sample of the recording stands for the instant at which the session was ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.from_recording.segments import Stretch

SHORT_MS = 1000
"""Of a backchannel: longer ones are utterances."""
YIELDS_MS = 500
"""The other side fell silent because of the user, if before so long after the user's end."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One turn. first: sample from which the clip is cut · kind, after, gap_samples, at_samples: as in a script."""

    speech: Stretch
    first: int
    kind: str = "speech"
    after: str = "reply"
    gap_samples: int | None = None
    at_samples: int | None = None


def place(user: Sequence[Stretch], other: Sequence[Stretch] | None, rate_hz: int, *, lead_samples: int) -> list[Placed]:
    """Every utterance with its start. other: what the other side said, None where that is not known.

    lead_samples: how much before its speech a clip begins, where there is room; gaps run to the clip's first sample.
    """
    placed: list[Placed] = []
    asked: Stretch | None = None
    for index, speech in enumerate(user):
        before = user[index - 1] if index else None
        free_from = before.stop if before else 0
        if other is None:
            turn = Placed(speech, max(free_from, speech.first - lead_samples))
        else:
            turn = _placed(speech, before, asked, other, rate_hz, lead_samples)
        placed.append(turn)
        if turn.kind != "backchannel":
            asked = speech
    return placed


def _placed(
    speech: Stretch, before: Stretch | None, asked: Stretch | None, other: Sequence[Stretch], rate_hz: int, lead: int
) -> Placed:
    heard = [one for one in other if one.first < speech.first]
    over = heard[-1] if heard and heard[-1].stop > speech.first else None
    free_from = before.stop if before else 0
    if over is not None:
        kind = _kind(speech, over, rate_hz)
        reply = next((one for one in heard if asked is not None and one.first > asked.first), None)
        first = max(free_from, speech.first - lead, 0 if reply is None else reply.first)
        if reply is None:
            return Placed(speech, first, kind, "at", at_samples=first)
        return Placed(speech, first, kind, "onset", gap_samples=first - reply.first)
    last = max((one.stop for one in heard), default=0) if before else 0
    event = max(last, free_from)
    first = max(event, speech.first - lead)
    after = "reply" if before is None or last > before.stop else "speech"
    return Placed(speech, first, "speech", after, gap_samples=first - event)


def _kind(speech: Stretch, over: Stretch, rate_hz: int) -> str:
    if over.stop <= speech.stop + YIELDS_MS * rate_hz // 1000:
        return "interruption"
    return "backchannel" if speech.stop - speech.first < SHORT_MS * rate_hz // 1000 else "overlap"
