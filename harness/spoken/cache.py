"""Speaking once: sound is kept by what it was made from (text, voice, engine, bytes of the weights)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.spoken.level import cut
from harness.spoken.voices import DEFAULTS, VOICES, Say, Voice, check_packages
from sessions import audio, sidecar, weights
from sessions.errors import MissingWeights, SetupError
from sessions.runs import disk_errors
from sessions.speech_end import energy_1
from sessions.weights.store import cache_folder

_RECIPE = "cut/1"
"""Part of the key: what is done to the sound after it was made."""
_SHOWN_LETTERS = 40


def spoken_folder() -> Path:
    """Where the sound is kept: beside our weights."""
    return cache_folder(os.environ).parent / "spoken"


def speaker() -> Speaker:
    """The one for commands: it keeps what it makes in our cache, and tells of it on standard error."""
    import click

    return Speaker(spoken_folder(), lambda line: click.echo(line, err=True))


@dataclass(slots=True)
class Speaker:
    """A `sessions.scripts.Speak`. Models load with the first text that is not in the cache.

    folder: the cache · tell: told one line for each text that is spoken now.
    """

    folder: Path
    tell: Callable[[str], None] = lambda _: None
    _loaded: dict[str, Say] = field(default_factory=dict)

    def __call__(self, text: str, *, voice: str, language: str) -> Path:
        """The file in which `text` is said. Raises `SetupError`, also `MissingExtra` and `MissingWeights`."""
        name = voice or _default(language)
        if name not in VOICES:
            raise SetupError(f"unknown voice {name!r}", f"Known: {', '.join(VOICES)}; or give an audio file")
        chosen = VOICES[name]
        _check_language(name, chosen, language)
        check_packages(chosen)
        found = [_found(weight) for weight in chosen.weights]
        path = self.folder / f"{_key(text, name, chosen, [one.sha256s for one in found])}.flac"
        if not (path.exists() and sidecar.path_of(path).exists()):
            if name not in self._loaded:
                self.tell(f"loading the voice {name} ...")
                self._loaded[name] = chosen.load(*(one.path for one in found))
            self._make(path, text, name, chosen)
        return path

    def _make(self, path: Path, text: str, name: str, voice: Voice) -> None:
        spoken = cut(self._loaded[name](text), voice.rate_hz)
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        audio.write_flac(path, spoken.pcm, voice.rate_hz)
        sidecar.write(path, energy_1(spoken.pcm, voice.rate_hz, name=str(path)))
        short = text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS].rstrip()}…"
        self.tell(f"spoken by {name}: {short} ({len(spoken.pcm) / voice.rate_hz:.1f} s)")


def _default(language: str) -> str:
    base = language.partition("-")[0]
    if base not in DEFAULTS:
        known = ", ".join(DEFAULTS)
        raise SetupError(f"no installed voice speaks {language!r} (only {known})", "Give an audio file in place of say")
    return DEFAULTS[base]


def _check_language(name: str, voice: Voice, language: str) -> None:
    if language.partition("-")[0] != voice.language:
        raise SetupError(
            f"the voice {name!r} speaks {voice.language}, not {language}", "Give an audio file in place of say"
        )


def _found(name: str) -> weights.Found:
    try:
        return weights.found(name)
    except MissingWeights as error:
        needed = " ".join(weights.SETS["scripts"]) if name in weights.SETS["scripts"] else name
        raise MissingWeights(
            f"the voice needs the weights {name!r}, which are nowhere on this machine",
            f"Fetch them with: duologue weights fetch {needed}",
        ) from error


def _key(text: str, name: str, voice: Voice, sha256s: list[dict[str, str]]) -> str:
    made_from = [text, name, voice.engine, _RECIPE, voice.rate_hz, sha256s]
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
