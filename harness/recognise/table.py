"""Every recogniser: name → "module:object", loaded when used, chosen by `BACKEND[:MODEL]`."""

from __future__ import annotations

from typing import Final

from harness.recognise.backend import Asked, Kind
from metrics.scoring import Options
from sessions.tables import load

BACKENDS: Final[dict[str, str]] = {
    "faster-whisper": "harness.recognise.faster_whisper:KIND",
    "openai-whisper": "harness.recognise.openai_whisper:KIND",
    "transformers": "harness.recognise.transformers_whisper:KIND",
    "uro-bench": "harness.recognise.transformers_whisper:PUBLISHED_KIND",
    "paraformer": "harness.recognise.paraformer:KIND",
    "endpoint": "harness.recognise.endpoint:KIND",
}
DEFAULT: Final = "faster-whisper:whisper-base"


def chosen(options: Options) -> tuple[str, Kind, Asked]:
    """The back end's name, the back end and what it is asked for. Raises `SetupError` for an unknown name."""
    name, _, model = options["asr"].partition(":")
    kind = load(BACKENDS, name, "recogniser")
    if not isinstance(kind, Kind):
        raise TypeError(f"recogniser {name!r} is a {type(kind).__name__}, not a harness.recognise.backend.Kind")
    return name, kind, Asked(model, options["asr_url"], options["asr_key"])
