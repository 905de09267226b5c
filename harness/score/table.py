"""Every metric of speech: name → "module:object", loaded when used. The order is the order on screen."""

from __future__ import annotations

from functools import cache

from metrics.scoring import Metric
from sessions.tables import load_a

METRICS: dict[str, str] = {
    "asr": "harness.recognise.metric:METRIC",
    "asr_wer": "metrics.text.asr_wer:METRIC",
    "artefacts": "metrics.text.artefacts.metric:METRIC",
    "heard_again": "metrics.text.heard_again:METRIC",
    "speaking_rate": "metrics.text.speaking_rate:METRIC",
    "first_content": "metrics.first_content.metric:METRIC",
    "dnsmos": "metrics.speech_quality.dnsmos:METRIC",
    "plcmos": "metrics.speech_quality.plcmos:METRIC",
    "utmos": "metrics.speech_quality.utmos.metric:METRIC",
    "distillmos": "metrics.speech_quality.distillmos:METRIC",
    "signal": "metrics.speech_quality.signal.metric:METRIC",
    "voice_embedding": "metrics.voice.embedding:METRIC",
    "voice": "metrics.voice.identity:METRIC",
    "emotion": "metrics.emotion.emotion2vec:METRIC",
    "gen_emotion": "metrics.emotion.gen_emotion:METRIC",
    "meteor": "metrics.text.meteor.metric:METRIC",
    "bleu": "metrics.text.bleu:METRIC",
}


@cache
def metric(name: str) -> Metric:
    """The metric of that name. Raises `SetupError` that lists the known ones and the nearest."""
    return load_a(Metric, METRICS, name, "score")


def parts_of(one: Metric) -> list[Metric]:
    """What it rests on that is in no table of its own, once each: those parts' options are its own too."""
    found: dict[str, Metric] = {}
    for name in one.needs:
        needed = metric(name)
        found |= {part.name: part for part in (*parts_of(needed), needed) if part.hidden}
    return list(found.values())
