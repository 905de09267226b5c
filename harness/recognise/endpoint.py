"""Speech to text by a service: any that speaks OpenAI's transcription interface, ours or somebody else's."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import soundfile

from harness.recognise.backend import RATE_HZ, Asked, Heard, Kind
from harness.recognise.languages import named
from metrics.scoring import FloatPcm
from metrics.transcript import Word
from sessions.audio import to_pcm16
from sessions.clock import Clock, MonotonicClock
from sessions.errors import SetupError
from sessions.secrets import Secrets

SETTINGS: Final = "temperature 0, FLAC of 16 kHz, at most 10 minutes at once, word times where the service has them"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_S: Final = 600.0
"""Services take 25 MB or so: this much speech in FLAC is at most 20 MB."""
_AT_ONCE: Final = 4
_PATIENCE_S: Final = 900.0
"""Five attempts of two minutes, and a minute before each further one."""
_BESIDE_S: Final = 1.0
"""How far after the end of a sound a service may have its last word."""


class Endpoint:
    """One service. Each call is one request of its own, so calls may come from several threads."""

    longest_s = _LONGEST_S
    at_once = _AT_ONCE

    def __init__(self, asked: Asked, clock: Clock | None = None) -> None:
        from clients.http.transcription import Service, TranscriptionClient

        url, key = _address(asked), _key(asked)
        self.model = asked.model
        self._client = TranscriptionClient(
            Service(url, asked.model, key, asked.key_variable), clock or MonotonicClock()
        )

    def hear(self, samples: FloatPcm, language: str) -> Heard:
        flac = io.BytesIO()
        soundfile.write(flac, to_pcm16(samples), RATE_HZ, format="FLAC", subtype="PCM_16")
        found = asyncio.run(self._client.transcribe(flac.getvalue(), language))
        given = (Word(word.word.strip(), word.start, word.end) for word in found.words or ())
        words = _within([word for word in given if word.text], len(samples) / RATE_HZ + _BESIDE_S)
        return Heard(found.text.strip(), named(found.language or ""), words)


def _within(words: Sequence[Word], last_s: float) -> tuple[Word, ...]:
    """All without times where one lies outside the sound: those are another sound's, or nobody's."""
    times = [(word.start_s, word.end_s) for word in words]
    sound = all(start is None or end is None or 0 <= start <= end <= last_s for start, end in times)
    return tuple(words) if sound else tuple(Word(word.text) for word in words)


def _address(asked: Asked) -> str:
    if not asked.model:
        raise SetupError("the recogniser 'endpoint' needs the name of a model", "Ask for endpoint:MODEL")
    if not asked.url:
        raise SetupError("the recogniser 'endpoint' needs an address", "Give asr_url, like https://host/v1")
    try:
        parts = urlsplit(asked.url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"asr_url {asked.url!r} is no address of a service", "Give one like https://host/v1")
    if "@" in parts.netloc or parts.query:
        # The address stands beside each score.
        raise SetupError(
            "asr_url holds a user name or a query", "Put the key into an environment variable, see asr_key"
        )
    return asked.url


def _key(asked: Asked) -> str:
    if not asked.key_variable:
        return ""
    if not _VARIABLE.fullmatch(asked.key_variable):  # it may be the key itself, so it is not shown
        raise SetupError("asr_key is not the name of an environment variable", "Give its name, never the key")
    key = os.environ.get(asked.key_variable, "")
    if not key:
        raise SetupError(f"the environment variable {asked.key_variable} is not set", "Put the service's key into it")
    return key


def _make(asked: Asked) -> Endpoint:
    return Endpoint(asked)


def _identify(asked: Asked) -> dict[str, str]:
    _key(asked)
    return {"url": Secrets().mask_url(_address(asked)), "model": asked.model, "decoding": SETTINGS}


KIND: Final = Kind(_make, _identify, patience_s=_PATIENCE_S)
