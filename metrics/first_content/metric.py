"""First-content latency: from the end of the user's speech to the first word of the reply that is no filler.

A reply that begins with "hmm, let me see" is fast by voice-to-voice and makes the user wait all the same, as one that
begins with silence is fast by its first packet. So both figures stand side by side, and their difference is the filler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from metrics.first_content.content import Content, first_content
from metrics.first_content.fillers import LISTS
from metrics.gate import BLOCKS_PER_S
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Figure, Metric, Options, Sample, Score
from metrics.text.printed import printed
from metrics.transcript import Transcript, primary, transcript_of
from sessions.clock import NS_PER_MS, NS_PER_S

_NO_WORDS: Final = "no word was heard in what answers this turn"
_BLOCK_MS: Final = 1000 / BLOCKS_PER_S
METRIC: Final = Metric(
    name="first_content",
    version="first_content/2",
    purpose="how long until a reply says something: fillers, earcons and backchannels do not count",
    figures=(
        Figure(
            "first_content_ms",
            "ms",
            "lower",
            "first content",
            "start of the first word that is no filler, played with B = 0 − speech_end; at least voice-to-voice",
        ),
        Figure("filler_ms", "ms", "lower", "filler", "first content − voice-to-voice"),
    ),
    derive="metrics.first_content.metric:derive",
    identify="metrics.first_content.metric:identify",
    needs=("asr",),
)


def identify(options: Options) -> dict[str, str]:
    """The list of every language, each with its number."""
    return {"fillers": ", ".join(fillers.name for fillers in LISTS.values())}


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    """One score per sample, from its transcript and its times on the dialogue's clock."""
    return [_score(sample, output["asr"]) for sample, output in zip(samples, outputs, strict=True)]


def _score(sample: Sample, heard: Score) -> Score:
    if not sample.heard or not sample.rate_hz:
        return METRIC.nothing(sample.untimed or "nothing says when this sound was heard: it is of no dialogue")
    transcript = transcript_of(heard)
    if isinstance(transcript, Unavailable):
        return METRIC.nothing(transcript.because)
    if isinstance(transcript, Failed):
        return Score({figure.name: transcript for figure in METRIC.figures})
    return _of_transcript(sample, transcript)


def _of_transcript(sample: Sample, transcript: Transcript) -> Score:
    assert sample.rate_hz is not None
    if not transcript.text:
        return METRIC.nothing("the recogniser understood nothing")
    if not transcript.timed:
        return METRIC.nothing(f"the recogniser {transcript.backend} gives no word times")
    language = primary(sample.language) or transcript.asked_language or transcript.language
    if language not in LISTS:
        known = ", ".join(LISTS)
        return METRIC.nothing(f"there is no list of fillers for the language {language!r} (there are: {known})")
    begin_s = sample.heard[0][0] / sample.rate_hz
    words = [word for word in printed(transcript) if (word.end_s or 0.0) > begin_s]
    fillers = LISTS[language]
    content = first_content(words, fillers, language)
    if content is None:
        said = " ".join(word.text for word in words)
        return METRIC.nothing(f"the whole reply is filler ({fillers.name}): {said!r}" if words else _NO_WORDS)
    return _timed(sample, content, fillers.name)


def _timed(sample: Sample, content: Content, list_name: str) -> Score:
    assert sample.rate_hz is not None
    index = round(max(content.start_s * sample.rate_hz, sample.heard[0][0]))
    details: dict[str, Any] = {
        "word": content.word,
        "start_s": round(content.start_s, 4),
        "fillers": content.fillers,
        "list": list_name,
    }
    flags = [f"filler: {content.fillers}"] if content.fillers else []
    if sample.heard_samples is not None and index >= sample.heard_samples:
        cut = Unavailable(f"the reply was cut off before its first word that is no filler, {content.word!r}")
        return Score({figure.name: cut for figure in METRIC.figures}, flags, details)
    at_ms = _heard_ms(sample.heard, index, sample.rate_hz)
    voice_ms = sample.voice_to_voice_ms
    if voice_ms is None:
        filler: Measured = Unavailable(sample.untimed or "voice-to-voice is not known")
        return Score({"first_content_ms": Value(at_ms), "filler_ms": filler}, flags, details)
    # Nothing is said before anything is audible, and the onset of the first word is the reply's own: seen at another
    # rate it may lie elsewhere in the gate's block.
    if at_ms < voice_ms + _BLOCK_MS:
        at_ms = voice_ms
    return Score({"first_content_ms": Value(at_ms), "filler_ms": Value(at_ms - voice_ms)}, flags, details)


def _heard_ms(heard: Sequence[tuple[int, int]], index: int, rate_hz: int) -> float:
    """When sample `index` is heard, in ms after `speech_end`."""
    first, at_ns = max(stretch for stretch in heard if stretch[0] <= index)
    return (at_ns + (index - first) * NS_PER_S / rate_hz) / NS_PER_MS
