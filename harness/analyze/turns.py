"""From the user's stretches of speech to turns: the rules of `audio_turns/1`, and nothing else.

A stretch that goes on for more than 500 ms beyond the start or the end of a label is cut there. Stretches that a label
covers, each by the label it has most in common with, are one turn of that label's kind; a label without any (a cough is
no speech) is a turn from its own start to its own end. The other stretches, less than `pause` apart, or with a labelled
pause between them, are one turn with pauses in it, where no labelled turn lies between. A pause is what lies between
two stretches.

Without a label a turn is

- `short` (`short_sound/1`), where it lasts less than 1 000 ms from its first to its last speech, pauses included:
  backchannel, noise, or a short answer: audio alone does not tell which;
- `interruption`, where the agent was speaking at its onset, whether it meant to interrupt or not;
- `speech` else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from harness.analyze.labels import PAUSE, SHORT, Label
from metrics.spans import Span, common_ns
from metrics.turn_taking.base import TO_BE_ANSWERED
from metrics.turn_taking.lanes import Sound
from sessions.clock import NS_PER_MS

AUDIO_TURNS: Final = "audio_turns/1"
SHORT_SOUND: Final = "short_sound/1"
SHORT_NS: Final = 1000 * NS_PER_MS
PAUSE_MS: Final = 700
LOOSE_NS: Final = 500 * NS_PER_MS
"""A label set by hand lies that near to the sound it means."""


@dataclass(frozen=True, slots=True)
class Turn:
    """sound: as the measures see it · labelled: somebody noted its kind · is_heard: the detector found speech in it."""

    sound: Sound
    labelled: bool = False
    is_heard: bool = True


def turns_of(
    user: Sequence[Span], agent: Sequence[Span], labels: Sequence[Label] = (), *, pause_ns: int = PAUSE_MS * NS_PER_MS
) -> list[Turn]:
    """user, agent: stretches of speech, in order · labels: of this recording, in any order · pause_ns: stretches of the
    user at least so far apart are two turns."""
    sounding = [label for label in labels if label.kind not in ("silence", PAUSE)]
    pauses = [label.span for label in labels if label.kind == PAUSE]
    groups = _groups(_cut(user, sounding), sounding, pauses, pause_ns)
    found = [_turn(stretches, label, agent) for label, stretches in groups]
    with_speech = {id(label) for label, _ in groups if label is not None}
    found += [_unheard(label) for label in labels if label.kind != PAUSE and id(label) not in with_speech]
    found.sort(key=lambda turn: turn.sound.start_ns)
    return [replace(turn, sound=replace(turn.sound, index=index)) for index, turn in enumerate(found)]


def _cut(user: Sequence[Span], labels: Sequence[Label]) -> list[Span]:
    """The stretches in pieces, so that what was said before or after a labelled sound is no part of it."""
    pieces = []
    for stretch in user:
        near = [one.span for one in labels if common_ns([stretch], [one.span])]
        starts = {span.start_ns for span in near if span.start_ns - stretch.start_ns > LOOSE_NS}
        ends = {span.end_ns for span in near if stretch.end_ns - span.end_ns > LOOSE_NS}
        edges = [stretch.start_ns, *sorted(starts | ends), stretch.end_ns]
        pieces += [Span(start_ns, end_ns) for start_ns, end_ns in pairwise(edges)]
    return pieces


def _groups(
    user: Sequence[Span], labels: Sequence[Label], pauses: Sequence[Span], pause_ns: int
) -> list[tuple[Label | None, list[Span]]]:
    groups: list[tuple[Label | None, list[Span]]] = []
    of_label: dict[int, list[Span]] = {}
    for stretch in user:
        label = max(labels, key=lambda one: common_ns([stretch], [one.span]), default=None)
        if label is None or not common_ns([stretch], [label.span]):
            last = groups[-1] if groups else None
            gap = Span(last[1][-1].end_ns, stretch.start_ns) if last is not None and last[0] is None else None
            if last is not None and gap is not None and (gap.length_ns < pause_ns or common_ns([gap], pauses)):
                last[1].append(stretch)
            else:
                groups.append((None, [stretch]))
        elif id(label) in of_label:
            of_label[id(label)].append(stretch)
        else:
            of_label[id(label)] = [stretch]
            groups.append((label, of_label[id(label)]))
    return groups


def _turn(stretches: Sequence[Span], label: Label | None, agent: Sequence[Span]) -> Turn:
    onset_ns, end_ns = stretches[0].start_ns, stretches[-1].end_ns
    kind = _kind(Span(onset_ns, end_ns), agent) if label is None else label.kind
    pauses = tuple(
        Span(one.end_ns, after.start_ns) for one, after in pairwise(stretches) if one.end_ns < after.start_ns
    )
    return Turn(_sound(kind, Span(onset_ns, end_ns), pauses), label is not None)


def _kind(speech: Span, agent: Sequence[Span]) -> str:
    if speech.length_ns < SHORT_NS:
        return SHORT
    return "interruption" if any(stretch.holds(speech.start_ns) for stretch in agent) else "speech"


def _unheard(label: Label) -> Turn:
    return Turn(_sound(label.kind, label.span), labelled=True, is_heard=False)


def _sound(kind: str, span: Span, pauses: tuple[Span, ...] = ()) -> Sound:
    return Sound(
        index=0,
        kind=kind,
        start_ns=span.start_ns,
        onset_ns=span.start_ns,
        end_ns=span.end_ns,
        pauses=pauses,
        expects_reply=kind in TO_BE_ANSWERED,
    )
