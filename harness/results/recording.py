"""The stereo recording of a dialogue on its own clock: left what the user said, right what would have been heard.

Sample 0 is the instant at which the session was ready; play-out with B = 0. Right-lane sound is placed where the
play-out model puts it, so silence is silence; a reply that was cut off ends where it was cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metrics.attribution import attribute
from metrics.conversation import Conversation, Reply
from metrics.cut import cut_ns
from metrics.playout import arrivals_of, nearest_ns, play
from sessions import audio
from sessions.clock import NS_PER_S

Pcm = NDArray[np.int16]


def reply_audio(replies: Sequence[Reply]) -> Pcm:
    """int16 (samples,): all audio that was generated, heard or not, in order of the replies."""
    pieces = [packet.pcm for reply in replies for packet in reply.packets]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int16)


Placed = tuple[int, Pcm]
"""Sound of a lane: when its first sample was, and int16 (samples,)."""


def stereo(
    conversation: Conversation, clips: dict[int, Pcm], closed_ns: int | None, lane: Sequence[Placed] = ()
) -> Pcm:
    """int16 (samples, 2) at the conversation's rate, from session ready to the later of close and end of play-out.

    clips: by turn, int16 (samples,), what the user lane carried from the turn's first sample on · lane: all that it
    carried, where that is known (a microphone's), in place of these.
    """
    ready_ns = conversation.ready_ns
    if ready_ns is None:
        return np.zeros((0, 2), dtype=np.int16)
    rate_hz = conversation.rate_hz
    user = lane or [(turn.start_ns, clips[turn.index]) for turn in conversation.turns if turn.index in clips]
    heard = [piece for reply in conversation.replies for piece in _heard(reply, conversation)]
    ends = [_index(start_ns, ready_ns, rate_hz) + len(pcm) for start_ns, pcm in (*user, *heard)]
    last_ns = max(filter(None, (closed_ns, conversation.ended_ns)), default=ready_ns)
    lanes = np.zeros((max([_index(last_ns, ready_ns, rate_hz), *ends]), 2), dtype=np.int16)
    for side, pieces in ((0, user), (1, heard)):
        for start_ns, pcm in pieces:
            first = _index(start_ns, ready_ns, rate_hz)
            skip = max(0, -first)
            lanes[first + skip : first + len(pcm), side] = pcm[skip:]
    return lanes


def _index(t_ns: int, ready_ns: int, rate_hz: int) -> int:
    return ((t_ns - ready_ns) * rate_hz + NS_PER_S // 2) // NS_PER_S


def _heard(reply: Reply, conversation: Conversation) -> list[Placed]:
    """The reply's audible pieces, one per stretch without a gap."""
    rate_hz = conversation.rate_hz
    playout = play(arrivals_of(reply.packets), rate_hz)
    if playout is None:
        return []
    pcm = reply_audio([reply])
    until_ns = cut_ns(reply, conversation.vad)
    if until_ns is not None:
        pcm = pcm[: playout.heard_samples(until_ns)]
    pieces = []
    for segment in playout.segments:
        part = pcm[segment.first_sample : segment.first_sample + segment.samples]
        pieces.append((nearest_ns(playout.played_at(segment.first_sample)), part))
    return pieces


def reply_file(folder: Path, turn: int) -> Path:
    """Where the generated audio of the turn with that index is kept."""
    return folder / f"reply-{turn + 1}.flac"


def write_replies(folder: Path, conversation: Conversation) -> None:
    """Write the audio of every turn that has any."""
    for replies in attribute(conversation):
        pcm = reply_audio(replies.all)
        if len(pcm):
            audio.write_flac(reply_file(folder, replies.turn.index), pcm, conversation.rate_hz)


def write(
    folder: Path,
    conversation: Conversation,
    clips: dict[int, Pcm],
    closed_ns: int | None,
    lane: Sequence[Placed] = (),
) -> bool:
    """Write `recording.flac`, and `reply-<turn>.flac` (turns from 1) with all audio that was generated.

    False, and no recording, where the session never began.
    """
    write_replies(folder, conversation)
    lanes = stereo(conversation, clips, closed_ns, lane)
    if len(lanes):
        audio.write_flac(folder / "recording.flac", lanes, conversation.rate_hz)
    return bool(len(lanes))
