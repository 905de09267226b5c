"""ASR-WER: how far what a recogniser hears in a reply is from the reply's own text.

It holds the errors of both, the voice and the recogniser; only differences between systems heard by the same recogniser
mean something. What is empty is never left out in silence:

text              speech            outcome
words             words             the rates
words             none heard        every word a deletion: rate 1 (a reply that is silent must not look good)
none after        anything          unavailable, there is nothing that the rate could be a share of; words that were
normalising                         heard all the same are flagged
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Aggregate, Figure, Metric, Option, Options, Sample, Score, ScoreLine
from metrics.stats import ratio_interval
from metrics.text.alignment import Counts, Unit, align, count, unit_of, units
from metrics.text.corpus import CorpusFigure, Sums, corpus
from metrics.text.heard import Said, said
from metrics.text.normalisers import AUTO, NORMALISERS, for_language, normalise, normaliser, words_alone
from metrics.text.packages import versions
from sessions.errors import SetupError

AS_PUBLISHED: Final = "as-published"
_SHARE: Final = "share"
_RATE: Final = "(S + D + I) / (S + D + H) of the cheapest alignment, every edit 1, not clipped"
_RATES: Final[tuple[tuple[str, Unit], ...]] = (("wer", "words"), ("cer", "characters"))

METRIC: Final = Metric(
    name="asr_wer",
    version="asr_wer/2",
    purpose="how far what a recogniser hears is from the reply's own text",
    figures=(
        Figure("wer", _SHARE, "lower", "ASR word error rate", f"{_RATE}; in words"),
        Figure("cer", _SHARE, "lower", "ASR character error rate", f"{_RATE}; in characters, spaces inside counted"),
        Figure("substitutions", _SHARE, "lower", "substituted", "S / (S + D + H) in the headline's unit"),
        Figure("deletions", _SHARE, "lower", "not heard", "D / (S + D + H) in the headline's unit"),
        Figure("insertions", _SHARE, "lower", "heard beside the text", "I / (S + D + H) in the headline's unit"),
    ),
    derive="metrics.text.asr_wer:derive",
    needs=("asr",),
    identify="metrics.text.asr_wer:identify",
    summarise="metrics.text.asr_wer:summarise",
    reads=("language", "text"),
    options=(
        Option("normaliser", AUTO, "how spellings are made equal; auto: by language", (AUTO, *NORMALISERS)),
        Option("unit", AUTO, "what the headline counts; auto: by language", (AUTO, "words", "characters")),
        Option(
            "form",
            "ours",
            "as-published: as URO-Bench, its normaliser, and a rate of 1 for a text of nothing",
            ("ours", AS_PUBLISHED),
        ),
    ),
    extra="text",
)


def identify(options: Options) -> dict[str, str]:
    """Versions of the normaliser and of all that it stands on."""
    if options["form"] == AS_PUBLISHED and (options["normaliser"], options["unit"]) != (AUTO, AUTO):
        raise SetupError("asr_wer as published has its own normaliser and units", "Leave one of the two out")
    names = [options["normaliser"]]
    if options["form"] == AS_PUBLISHED:
        names = ["uro-en", "uro-zh"]
    elif names == [AUTO]:
        names = ["whisper-en", "uro-zh", "basic"]
    identity = versions("jiwer")
    for name in names:
        identity |= {name: normaliser(name).version, **normaliser(name).packages()}
    return identity


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    return [_one(said(sample, scores), options) for sample, scores in zip(samples, outputs, strict=True)]


def _one(found: Said | Unavailable | Failed, options: Options) -> Score:
    if not isinstance(found, Said):
        return METRIC.nothing(found)
    published = options["form"] == AS_PUBLISHED
    if published and found.language not in ("en", "zh"):
        return METRIC.nothing("URO-Bench has an error rate for English and Chinese alone")
    name = f"uro-{found.language}" if published else options["normaliser"]
    name = for_language(found.language) if name == AUTO else name
    unit: Unit = unit_of(found.language) if options["unit"] == AUTO else _unit(options["unit"])
    spelled = normalise(name) if published else partial(words_alone, name)
    reference, hypothesis = spelled(found.text), spelled(found.transcript.text)
    return _scored(found, reference, hypothesis, _How(name, unit, published, options["unit"] != AUTO))


class _How(msgspec.Struct, frozen=True):
    """asked: whether the unit was asked for, whatever the language."""

    normaliser: str
    unit: Unit
    published: bool
    asked: bool


def _unit(asked: str) -> Unit:
    return "characters" if asked == "characters" else "words"


def _scored(found: Said, reference: str, hypothesis: str, how: _How) -> Score:
    steps = {unit: align(units(reference, unit), units(hypothesis, unit)) for unit in _units(how.unit)}
    counts = {unit: count(of_unit) for unit, of_unit in steps.items()}
    flags = list(found.flags)
    if found.transcript.no_speech:
        flags.append(f"no speech: {found.transcript.no_speech}")
    headline = counts[how.unit]
    if headline.rate is not None and headline.rate > 1:
        flags.append(f"more errors than {how.unit}: {headline.errors} of {headline.units}")
    if not headline.units and headline.insertions:
        flags.append(f"speech without text: {hypothesis!r}")
    return Score(
        {
            "wer": _rate(counts.get("words"), how, found),
            "cer": _rate(counts["characters"], how, found),
            "substitutions": _share(headline.substitutions, headline, how, found),
            "deletions": _share(headline.deletions, headline, how, found),
            "insertions": _share(headline.insertions, headline, how, found),
        },
        flags,
        {
            "normaliser": f"{how.normaliser}/{normaliser(how.normaliser).version}",
            "unit": how.unit,
            "reference": reference,
            "hypothesis": hypothesis,
            "counts": {unit: msgspec.to_builtins(of_unit) for unit, of_unit in counts.items()},
            "alignment": [msgspec.to_builtins(step) for step in steps[how.unit]],
        },
    )


def _units(headline: Unit) -> tuple[Unit, ...]:
    return ("words", "characters") if headline == "words" else ("characters",)


def _rate(counts: Counts | None, how: _How, found: Said) -> Measured:
    if counts is None:
        why = "as asked" if how.asked else "this language's words are not told apart by spaces"
        return Unavailable(f"counted in characters: {why}")
    if counts.rate is not None:
        return Value(counts.rate)
    return Value(1.0) if how.published else _nothing(found)


def _share(edits: int, counts: Counts, how: _How, found: Said) -> Measured:
    return Value(edits / counts.units) if counts.units else _nothing(found)


def _nothing(found: Said) -> Unavailable:
    if not found.text.strip():
        return Unavailable("the reply's own text is empty")
    return Unavailable("the reply's own text has no words after the normaliser")


def summarise(lines: Iterable[ScoreLine]) -> list[Aggregate]:
    """Corpus rates: all errors over all units of the references, which long replies decide; the means do not."""
    return corpus(_CORPUS, lines)


def _errors_of(unit: Unit) -> Callable[[ScoreLine], Sequence[int]]:
    def parts(line: ScoreLine) -> Sequence[int]:
        counts = msgspec.convert(line.score.details["counts"][unit], Counts)
        return counts.errors, counts.units

    return parts


def _corpus_rate(sums: Sums) -> float | None:
    """As published, references of nothing count in the mean, and here by what was heard beside them."""
    return float(sums[0] / sums[1]) if sums[1] else None


def _interval(groups: Sums) -> tuple[float, float] | None:
    return ratio_interval([(float(errors), float(units)) for errors, units in groups])


_CORPUS: Final = tuple(
    CorpusFigure(
        Figure(f"corpus_{rate}", _SHARE, "lower", f"corpus {rate.upper()}", f"{_RATE}; of all samples together"),
        of=rate,
        parts=_errors_of(unit),
        value=_corpus_rate,
        interval=_interval,
    )
    for rate, unit in _RATES
)
