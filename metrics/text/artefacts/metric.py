"""The metric `artefacts`: what goes wrong in a reply's speech, counted apart by kind.

A recogniser tidies up: a word said twice is often heard once. What it heard all the same is certain; what it did not
hear is not proof. Clicks and dropouts of the sound are the metric `signal`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Figure, Metric, Option, Options, Sample, Score
from metrics.text.alignment import Unit, align, unit_of, units
from metrics.text.artefacts.pauses import longest_s, pauses, stretched
from metrics.text.artefacts.repeats import repeats
from metrics.text.artefacts.runs import Run, runs
from metrics.text.artefacts.tokens import Token, of_text, of_transcript
from metrics.text.heard import heard
from metrics.text.normalisers import AUTO, NORMALISERS, for_language, normaliser, words_alone
from metrics.text.packages import versions
from metrics.transcript import Transcript, language_of

_KINDS: Final = ("repeats", "missing", "added", "cut_off", "pauses", "stretched")

METRIC: Final = Metric(
    name="artefacts",
    version="artefacts/2",
    purpose="repeats, words missing or added, pauses and cut ends in a reply's speech",
    figures=(
        Figure(
            "artefacts", "count", "lower", "artefacts", "all kinds together; unavailable where one could not be told"
        ),
        Figure("repeats", "count", "lower", "repeats", "runs of words that stand twice in a row, not so in the text"),
        Figure("missing", "count", "lower", "missing words", "stretches of 2 words and 6 letters that were not heard"),
        Figure("added", "count", "lower", "added words", "stretches of 2 words and 6 letters that the text has not"),
        Figure("cut_off", "count", "lower", "cut off", "ends of the speech or of the text that the other goes beyond"),
        Figure("pauses", "count", "lower", "long pauses", "silences of over 1 s, over 2 s where a sentence ends"),
        Figure(
            "stretched",
            "count",
            "lower",
            "stretched words",
            "words of over (0.5 + 0.05 · letters) s, more in slow speech",
        ),
        Figure("longest_pause", "s", "lower", "longest pause", "the longest silence between two words"),
    ),
    derive="metrics.text.artefacts.metric:derive",
    needs=("asr",),
    identify="metrics.text.artefacts.metric:identify",
    reads=("language", "text", "heard_samples"),
    options=(Option("normaliser", AUTO, "how spellings are made equal; auto: by language", (AUTO, *NORMALISERS)),),
    extra="text",
)


def identify(options: Options) -> dict[str, str]:
    """Versions of the normalisers and of all that they stand on."""
    identity = versions("jiwer")
    for name in (
        ("whisper-en", "uro-zh", "basic") if options["normaliser"] == AUTO else (options["normaliser"], "basic")
    ):
        identity |= {name: normaliser(name).version, **normaliser(name).packages()}
    return identity


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    return [_one(sample, heard(scores), options) for sample, scores in zip(samples, outputs, strict=True)]


@dataclass(slots=True)
class _Found:
    """By kind: how many, or why it could not be told; and a flag for each."""

    figures: dict[str, Measured] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)

    def kind(self, name: str, flags: Sequence[str]) -> None:
        self.figures[name] = Value(float(len(flags)))
        self.flags += flags

    def unavailable(self, names: Sequence[str], because: str) -> None:
        self.figures |= dict.fromkeys(names, Unavailable(because))


def _one(sample: Sample, transcript: Transcript | Unavailable | Failed, options: Options) -> Score:
    if not isinstance(transcript, Transcript):
        return METRIC.nothing(transcript)
    language = language_of(sample, transcript)
    unit = unit_of(language)
    own = of_text(sample.text or "", unit)
    if transcript.no_speech and not own:
        return METRIC.nothing(f"no speech, and no text either: {transcript.no_speech}")
    found = _Found()
    tokens = of_transcript(transcript, unit)
    name = for_language(language) if options["normaliser"] == AUTO else options["normaliser"]
    spelled = partial(_units, name, unit)
    repeated = _repeats(found, tokens, own, spelled)
    if sample.text is None:
        found.unavailable(("missing", "added", "cut_off"), "the system gave no text of this reply")
    else:
        texts = [spelled(text) for text in (sample.text, transcript.text)]
        _runs(found, runs(align(*texts), unit), repeated, interrupted=sample.heard_samples is not None)
    _timed(found, transcript, tokens, own)
    return Score({"artefacts": _total(found, sample), **found.figures}, found.flags)


def _total(found: _Found, sample: Sample) -> Measured:
    """Of all kinds; an interrupted reply is one of all but cut ends."""
    kinds = [found.figures[kind] for kind in _KINDS if kind != "cut_off" or sample.heard_samples is None]
    known = [figure.value for figure in kinds if isinstance(figure, Value)]
    return Value(sum(known)) if len(known) == len(kinds) else Unavailable("not every kind of artefact could be told")


def _units(name: str, unit: Unit, text: str) -> list[str]:
    return [cut for cut in units(words_alone(name, text), unit) if any(map(str.isalnum, cut))]


def _repeats(
    found: _Found, tokens: Sequence[Token], own: Sequence[Token], spelled: Callable[[str], list[str]]
) -> set[str]:
    """The units that repeats are made of, as `spelled` for the alignment."""
    flags, repeated = [], set[str]()
    for one in repeats([token.text for token in tokens], [token.text for token in own]):
        stop = one.first + len(one.units) * one.times
        again = spelled(" ".join(token.written for token in tokens[one.first : stop]))
        if not _number(one.units) and not _number(again):
            flags.append(f"repeated: {_quoted(one.units)} {one.times} times{_at(tokens[one.first].start_s)}")
            repeated |= set(again)
    found.kind("repeats", flags)
    return repeated


def _number(units: Sequence[str]) -> bool:
    """Whether it is a number, whose digits may be said and written one by one: "5 5 5" of "555"."""
    return bool(units) and all(map(str.isnumeric, units))


def _runs(found: _Found, stretches: Sequence[Run], repeated: set[str], *, interrupted: bool) -> None:
    missing, added, cut = [], [], []
    for run in stretches:
        if run.missing < 0 and repeated and set(run.hypothesis) <= repeated:
            continue  # the words of a repeat, counted already
        if run.where == "all" or run.where == "within":
            after = f" after {run.before!r}" if run.before else ""
            if run.missing > 0:
                missing.append(f"missing: {_quoted(run.reference)}{after}")
            else:
                added.append(f"added: {_quoted(run.hypothesis)}{after}")
        elif run.missing > 0:
            side = "begins after" if run.where == "start" else "ends before"
            cut.append(f"cut off: the speech {side} {_quoted(run.reference)}")
        else:
            side = "begins after" if run.where == "start" else "ends before"
            cut.append(f"cut off: the text {side} {_quoted(run.hypothesis)}")
    found.kind("missing", missing)
    found.kind("added", added)
    if interrupted:
        found.unavailable(("cut_off",), "the reply was interrupted, so it is cut off")
    else:
        found.kind("cut_off", cut)


def _timed(found: _Found, transcript: Transcript, tokens: Sequence[Token], own: Sequence[Token]) -> None:
    if not transcript.text:
        found.kind("pauses", [])
        found.kind("stretched", [])
        found.unavailable(("longest_pause",), "no word was heard")
    elif not transcript.timed:
        found.unavailable(("pauses", "stretched", "longest_pause"), "the recogniser gives no word times")
    else:
        silences = pauses(transcript, tokens, own)
        found.kind("pauses", [f"pause: {one.seconds:.1f} s after {one.after!r}{_at(one.at_s)}" for one in silences])
        slow = stretched(transcript)
        found.kind("stretched", [f"stretched: {word.text!r}{_at(word.start_s)}" for word in slow])
        found.figures["longest_pause"] = Value(longest_s(transcript))


def _quoted(units: Sequence[str]) -> str:
    text = (" " if any(len(unit) > 1 for unit in units) else "").join(units)
    return repr(text if len(text) <= 80 else f"{text[:77]}…")


def _at(seconds: float | None) -> str:
    return "" if seconds is None else f" at {seconds:.1f} s"
