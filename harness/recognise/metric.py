"""The metric `asr`: what a recogniser hears in a reply. Other metrics are made of it; in no table itself."""

from __future__ import annotations

from typing import Final

from harness.recognise.scorer import Recogniser
from harness.recognise.speech import SPEECH
from harness.recognise.table import DEFAULT, chosen
from harness.recognise.word_times import WORD_TIMES
from metrics.scoring import Figure, Metric, Option, Options
from metrics.transcript import WORDS
from sessions.weights import found

METRIC: Final = Metric(
    name="asr",
    version="asr/2",
    purpose="what a recogniser hears: the text that speech-text metrics compare, and when each word was said",
    figures=(Figure(WORDS, "words", "none", "words heard", "how many words the transcript has"),),
    make="harness.recognise.metric:make",
    identify="harness.recognise.metric:identify",
    patience="harness.recognise.metric:patience",
    options=(
        Option("asr", DEFAULT, "the recogniser, BACKEND or BACKEND:MODEL"),
        Option("language", "", "of samples whose language nobody said (en, zh …); by default the recogniser finds out"),
        Option("speech", "silero", "how silence is told from speech, before the recogniser is asked", SPEECH),
        Option("asr_url", "", "base address of a transcription service, for the back end 'endpoint'"),
        Option("asr_key", "", "name of the environment variable that holds the service's key"),
    ),
    reads=("language",),
    extra="embedded",
    on_device=True,
    batch=4,
    hidden=True,
)


def make(options: Options) -> Recogniser:
    """Load what was asked for."""
    name, kind, asked = chosen(options)
    return Recogniser(
        kind.make(asked), name, options["speech"], gate=kind.settles_silence, language=options["language"]
    )


def identify(options: Options) -> dict[str, str]:
    """What transcripts depend on."""
    name, kind, asked = chosen(options)
    identity = {"backend": name, **kind.identify(asked), "word_times": WORD_TIMES}
    if kind.settles_silence and options["speech"] == "silero":
        identity["voice_detector"] = found("silero-vad-v6").sha256s["silero_vad_v6.onnx"]
    return identity


def patience(options: Options) -> float:
    """Seconds that a back end may wait for somebody else over one sound."""
    return chosen(options)[1].patience_s
