"""The two lanes of a dialogue, and what its event log adds to them.

Audio alone gives `sounds` and `agent`; then a measure that needs more says so. All instants are on one clock, in ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from metrics.attribution import answering
from metrics.result import Unavailable
from metrics.spans import Span
from sessions.clock import NS_PER_MS

WATCH_NS = 2000 * NS_PER_MS
"""How long after a sound that expects no reply the agent is watched, where the script says nothing else."""
NEEDS_LOG = "it needs the event log: audio alone does not show which reply is which"


@dataclass(frozen=True, slots=True)
class Sound:
    """What the user did in one turn.

    kind: speech, interruption, overlap, backchannel, noise, silence · start_ns: its first sample · onset_ns: its first
    audible sample · end_ns: `speech_end`, of a silence the end of all of it · pauses: inside it, in order ·
    expects_reply: whether the agent should answer.
    """

    index: int
    kind: str
    start_ns: int
    onset_ns: int
    end_ns: int
    pauses: tuple[Span, ...] = ()
    watch_ns: int = WATCH_NS
    expects_reply: bool = True

    @property
    def speech(self) -> tuple[Span, ...]:
        """When the user is heard: from onset to end without the pauses; nothing in a silence."""
        if self.kind == "silence":
            return ()
        parts, from_ns = [], self.onset_ns
        for pause in self.pauses:
            parts.append(Span(from_ns, min(pause.start_ns, self.end_ns)))
            from_ns = max(from_ns, pause.end_ns)
        parts.append(Span(from_ns, self.end_ns))
        return tuple(part for part in parts if part.length_ns > 0)


@dataclass(frozen=True, slots=True)
class Talk:
    """One reply of the agent that has audio.

    whole, heard: its audible stretches, as if nothing had been dropped, and as heard · cut_ns: where it fell silent
    before its own end (`metrics.cut`) · heard_until_ns: when the last of its samples that was heard ended, silent
    samples included · heard_ms of generated_ms: of its audio, underruns are no part of it · last_arrival_ns: its last
    audio message · cancelled_ns: our own cancel of it.
    """

    created_ns: int
    whole: tuple[Span, ...]
    heard: tuple[Span, ...]
    heard_until_ns: int
    heard_ms: float
    generated_ms: float
    last_arrival_ns: int
    cut_ns: int | None = None
    cancelled_ns: int | None = None

    @property
    def stops_ns(self) -> int:
        """When it was no longer heard: cut off, or after its last audible sample. Only of one that is audible."""
        return min(self.heard_until_ns, self.whole[-1].end_ns)

    def is_audible_at(self, t_ns: int) -> bool:
        """Whether a stretch of it is being heard then."""
        return any(stretch.holds(t_ns) for stretch in self.heard)


@dataclass(frozen=True, slots=True)
class Log:
    """What only an event log knows.

    talks: replies with audio, by creation · answers: by turn, its first audible reply that is neither a false start nor
    a backchannel · replied: turns with any such reply, audible or not · more: by turn, replies heard after that one ·
    backchannels: by turn, the agent's · endings_ns: each instant at which the server took the turn or began a reply.
    """

    talks: tuple[Talk, ...] = ()
    answers: Mapping[int, Talk] = field(default_factory=dict)
    replied: frozenset[int] = frozenset()
    more: Mapping[int, int] = field(default_factory=dict)
    backchannels: Mapping[int, int] = field(default_factory=dict)
    endings_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lanes:
    """protocol_class: "" for audio that was imported · sounds: by start · agent: its heard stretches, in order, with at
    least 200 ms of quiet between them · log: None where there is none, and in class D, whose stream has no replies."""

    protocol_class: str
    sounds: tuple[Sound, ...]
    agent: tuple[Span, ...]
    log: Log | None = None

    def why_client_ends(self) -> Unavailable | None:
        """Why a measure of the server's own turn-taking cannot be had here, if so."""
        if self.protocol_class in ("A", "C"):
            return Unavailable(f"in class {self.protocol_class} the client alone ends turns")
        return None

    def until_ns(self, sound: Sound) -> int | None:
        """When the next sound that ends this one's wait begins: any sound after one that expects no reply, else the
        next that expects one."""
        later = (
            other.onset_ns
            for other in self.sounds
            if other.onset_ns > sound.onset_ns and (other.expects_reply or not sound.expects_reply)
        )
        return min(later, default=None)

    def watched_until_ns(self, sound: Sound) -> int:
        """The end of a sound's watch: `watch_ns` after it, or earlier where the user sounds again."""
        end_ns, next_ns = sound.end_ns + sound.watch_ns, self.until_ns(sound)
        return end_ns if next_ns is None else min(end_ns, next_ns)

    def is_agent_audible_at(self, t_ns: int) -> bool:
        return any(stretch.holds(t_ns) for stretch in self.agent)

    def answer_ns(self, sound: Sound) -> int | None:
        """When the answer to a sound that expects one began to be heard."""
        if self.log is not None:
            talk = self.log.answers.get(sound.index)
            return None if talk is None else talk.whole[0].start_ns
        found = answering(self.agent, sound.onset_ns, sound.end_ns, self.until_ns(sound))
        return None if found is None else self.agent[found].start_ns


def in_order(sounds: Sequence[Sound]) -> tuple[Sound, ...]:
    return tuple(sorted(sounds, key=lambda sound: sound.start_ns))
