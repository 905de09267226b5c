"""A script that is ready to be performed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sessions.audio import Clip
from sessions.scripts.format import DEFAULT_GAP_MS, DEFAULT_TIMEOUT_S, DEFAULT_WATCH_MS
from sessions.speech_end import SpeechEnd

EXPECT_A_REPLY = frozenset({"speech", "interruption", "overlap"})
"""Kinds of turns that the assistant should answer. It should stay quiet after a backchannel or a noise; it may after a
silence."""


@dataclass(frozen=True, slots=True)
class Start:
    """When a turn starts. Events are those that are *heard*, on the play-out clock with no buffer.

    after: "reply": the reply to the last turn that expects one was heard to its end, and the turn before is over (first
    turn: session ready) · "onset": the first audible sample of that reply was heard · "speech": the user's own turn
    before has ended (of a silence: all of it) · "at": `at_ms` after the session was ready ·
    gap_ms: from that event to the turn's first sample, 0 for "at" ·
    timeout_s: how long to wait for the event before the turn is given up.
    """

    after: str = "reply"
    gap_ms: int = DEFAULT_GAP_MS
    at_ms: float | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    """One turn of the user, ready to be sent.

    clip: as sent; zeros for a silence · audio_path: the file it came from (of several: the first), None for a silence ·
    text: what is said in it, "" if not known · speech_end: an index into `clip`, −1 for a silence ·
    start: when · sha256: of what is heard (`audio.sha256`) · kind: as in the format ·
    pauses: (first sample, samples) of each pause inside the utterance, indices into `clip` ·
    onset_sample: the first audible sample (`gate/1`; where nothing reaches it, of the first block within 35 dB of the
    loudest), 0 for a silence · watch_ms: how long after a sound that expects no reply the assistant is watched ·
    reference, keywords, rubric: for scoring · language: "" if not known.
    """

    clip: Clip
    audio_path: Path | None
    text: str
    speech_end: SpeechEnd
    start: Start
    sha256: str
    kind: str = "speech"
    onset_sample: int = 0
    pauses: tuple[tuple[int, int], ...] = ()
    watch_ms: int = DEFAULT_WATCH_MS
    reference: str = ""
    keywords: tuple[str, ...] = ()
    rubric: str = ""
    language: str = ""

    @property
    def silence(self) -> bool:
        return self.kind == "silence"

    @property
    def expects_reply(self) -> bool:
        return self.kind in EXPECT_A_REPLY


@dataclass(frozen=True, slots=True)
class Script:
    """A script with its audio.

    path: its YAML, None if it was made from audio files · language: "" if not known
    instructions: for the assistant, "" for none · sha256: of the YAML's bytes, or of the turns' hashes; of these and
    the perturbation where there is one · perturb, perturb_seed: what was done to its sounds, "" for nothing.
    """

    name: str
    description: str
    language: str
    instructions: str
    path: Path | None
    sha256: str
    turns: tuple[ScriptTurn, ...]
    perturb: str = ""
    perturb_seed: int = 0
