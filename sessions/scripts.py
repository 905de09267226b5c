"""Session scripts: what the user side of a dialogue says, and when each turn starts.

A script is one YAML file, `version: 1`, with its audio beside it (docs/scripts.md). `load_script` reads it, checks it
to the line, reads the audio and finds where each utterance ends, so that what it returns is ready to be spoken. The
script's own word on that comes first, then the sidecar of the audio file, then the method `find_end`.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.resources
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from sessions import audio, sidecar, yaml_schema
from sessions.audio import Clip, Source
from sessions.errors import BadAudio, BadFile, SetupError
from sessions.speech_end import ANNOTATION, FindEnd, SpeechEnd, energy_1

VERSION = 1
RATE_HZ = 24_000
DEFAULT_GAP_MS = 300

_NAME = r"^[a-z0-9][a-z0-9._-]*$"
_LANGUAGE = r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$"


class StartFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a turn starts."""

    after: Annotated[
        Literal["reply"],
        Meta(
            description="reply: when the reply to the turn before has been heard to its end (first turn: session ready)"
        ),
    ] = "reply"
    gap_ms: Annotated[int, Meta(ge=0, le=600_000, description="milliseconds of silence before the turn starts")] = (
        DEFAULT_GAP_MS
    )


class TurnFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One user utterance."""

    audio: Annotated[
        str, Meta(pattern=r"^[^\x00-\x1f]+$", description="audio file, by its path from the script's folder")
    ]
    text: Annotated[str, Meta(description="what is said in it")] = ""
    speech_end_sample: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="index (from 0) of the last speech sample, at the file's own rate; "
            "if not given: as a sidecar of the audio says, else found in it"
        ),
    ] = None
    start: StartFile = StartFile()


class ScriptFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session script: what the user side of a dialogue says, and when."""

    version: Annotated[Literal[1], Meta(description="of this format")]
    name: Annotated[str, Meta(pattern=_NAME, description="short name for tables and folders: a-z, 0-9, . _ -")]
    turns: Annotated[tuple[TurnFile, ...], Meta(min_length=1, description="in order")]
    description: Annotated[str, Meta(description="one line for people")] = ""
    language: Annotated[str, Meta(pattern=_LANGUAGE, description="of the dialogue, as in en or pt-BR")] = "en"
    agent: Annotated[str, Meta(description="instructions (system prompt) that the assistant gets")] = ""


@dataclass(frozen=True, slots=True)
class Start:
    """after: "reply", the only rule that version 1 knows · gap_ms: silence before the turn starts."""

    after: str = "reply"
    gap_ms: int = DEFAULT_GAP_MS


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    """One utterance, ready to be sent.

    clip: as sent · audio_path: the file it came from · text: what is said in it, "" if not known
    speech_end: an index into `clip` · start: when · sha256: of what is heard (`audio.sha256`)
    """

    clip: Clip
    audio_path: Path
    text: str
    speech_end: SpeechEnd
    start: Start
    sha256: str


@dataclass(frozen=True, slots=True)
class Script:
    """A script with its audio.

    path: its YAML, None if it was made from audio files · language: "" if not known
    instructions: for the assistant, "" for none · sha256: of the YAML's bytes, or of the turns' hashes
    """

    name: str
    description: str
    language: str
    instructions: str
    path: Path | None
    sha256: str
    turns: tuple[ScriptTurn, ...]


_STAND_INS: dict[str, object] = {
    "version": VERSION,
    "name": "x",
    "audio": "x",
    "turns": [{"audio": "x"}],
}
_HINTS = {
    "version": f"Known versions: {VERSION}",
    "name": "A short name of a-z, 0-9, '.', '_', '-', such as small-talk",
    "audio": "The path of an audio file from the script's folder, such as small-talk/turn-1.flac",
    "turns": "A list with at least one turn, each with its audio",
    "language": "A language tag such as en or pt-BR",
    "after": "Known: reply",
    "gap_ms": "Whole milliseconds from 0 to 600000",
    "speech_end_sample": "A whole number: the index of the last speech sample, from 0",
}


def load_script(name_or_path: str | Path, *, rate_hz: int = RATE_HZ, find_end: FindEnd = energy_1) -> Script:
    """A shipped script by its name, or any script by its path, with its audio at `rate_hz`.

    find_end: how to find the end of speech that nobody annotated.
    Raises `SetupError` for an unknown name (lists the known ones and the nearest) and `BadFile` for the first mistake
    in the file, with its line and field.
    """
    path = find_script(name_or_path)
    script, mistakes = examine(path, rate_hz=rate_hz, find_end=find_end)
    if script is None:
        first, more = mistakes[0], len(mistakes) - 1
        if not more:
            raise first
        mend = f"{first.mend}. {more} more: duologue scripts check {path}".lstrip(". ")
        raise BadFile(first.path, first.problem, first.line, first.field, mend) from first
    return script


def script_from_audio(paths: Sequence[str | Path], *, rate_hz: int = RATE_HZ, find_end: FindEnd = energy_1) -> Script:
    """One dialogue with one turn per audio file. Raises `BadAudio`, also where a file holds no speech."""
    if not paths:
        raise SetupError("no audio file was given", "Name one file per turn")
    turns = tuple(_turn(Path(path), audio.read(path), TurnFile(audio=str(path)), rate_hz, find_end) for path in paths)
    stem = re.sub(r"[^a-z0-9]+", "-", Path(paths[0]).stem.lower()).strip("-") or "audio"
    name = stem if len(turns) == 1 else f"{stem}-and-{len(turns) - 1}-more"
    digest = hashlib.sha256("\n".join(turn.sha256 for turn in turns).encode()).hexdigest()
    return Script(name, "", "", "", None, digest, turns)


def library() -> dict[str, Path]:
    """The shipped scripts: name → YAML file."""
    folder = Path(str(importlib.resources.files("sessions").joinpath("library")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_script(name_or_path: str | Path) -> Path:
    """The YAML file that `name_or_path` stands for. Raises `SetupError` where there is none."""
    known = library()
    text = str(name_or_path)
    if text in known:
        return known[text]
    path = Path(name_or_path)
    if path.is_file():
        return path
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        problem = "it is a folder" if path.is_dir() else "there is no such file"
        raise SetupError(f"cannot read the script {text}: {problem}", f"Shipped scripts: {', '.join(known)}")
    near = difflib.get_close_matches(text, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise SetupError(f"unknown script {text!r}", f"{hint}Known: {', '.join(known)}; or give the path of a YAML file")


def read_script_file(path: str | Path) -> ScriptFile:
    """The YAML of a script without its audio. Raises `BadFile` for its first mistake."""
    checked = _check(yaml_schema.parse(path))
    if checked.mistakes or checked.value is None:
        raise checked.mistakes[0]
    return checked.value


def examine(
    path: str | Path, *, rate_hz: int = RATE_HZ, find_end: FindEnd = energy_1
) -> tuple[Script | None, tuple[BadFile, ...]]:
    """A script with its audio, or all mistakes in it, in line order: the schema's, and those of the audio files."""
    path = Path(path)
    try:
        document = yaml_schema.parse(path)
    except BadFile as error:
        return None, (error,)
    checked = _check(document)
    file, mistakes = checked.value, list(checked.mistakes)
    if file is None:
        return None, tuple(mistakes)
    turns: list[ScriptTurn] = []
    wrong = {mistake.field for mistake in mistakes}
    for index, turn in enumerate(file.turns):
        if wrong & {"turns", f"turns[{index}]", f"turns[{index}].audio"}:
            continue
        try:
            turns.append(_load_turn(document, index, turn, rate_hz, find_end))
        except BadFile as error:
            mistakes.append(error)
    if mistakes:
        return None, tuple(sorted(mistakes, key=lambda mistake: mistake.line or 0))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Script(file.name, file.description, file.language, file.agent, path, digest, tuple(turns)), ()


def json_schema() -> dict[str, Any]:
    """The format as a JSON Schema (2020-12), as shipped in `sessions/library/script.schema.json`."""
    schema = msgspec.json.schema(ScriptFile)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "duologue session script", **schema}


def _check(document: yaml_schema.Document) -> yaml_schema.Checked[ScriptFile]:
    version = document.data.get("version") if isinstance(document.data, dict) else None
    if type(version) is int and version != VERSION:
        # What else is in the file follows rules that we do not know: its version is the only thing to say.
        mend = f"Known versions: {VERSION}. A newer duologue may read it"
        wrong = document.mistake(("version",), f"version {version} of the format is not known", mend)
        return yaml_schema.Checked(None, (wrong,))
    return yaml_schema.check(document, ScriptFile, stand_ins=_STAND_INS, hints=_HINTS)


def _load_turn(
    document: yaml_schema.Document, index: int, turn: TurnFile, rate_hz: int, find_end: FindEnd
) -> ScriptTurn:
    """Read a turn's audio. Raises `BadFile` with the line of the field at fault."""
    at_audio = ("turns", index, "audio")
    folder = Path(document.path).parent
    if Path(turn.audio).is_absolute() or PureWindowsPath(turn.audio).anchor:
        raise document.mistake(at_audio, "this is not a path from the script's folder", _HINTS["audio"])
    path = folder / turn.audio
    if not path.resolve().is_relative_to(folder.resolve()):
        raise document.mistake(at_audio, f"{turn.audio} lies outside the script's folder", "Copy the audio beside it")
    try:
        source = audio.read(path)
        end = turn.speech_end_sample
        if end is not None and end >= len(source.samples):
            problem = f"sample {end} is not in {turn.audio}, which has {len(source.samples)} at {source.rate_hz} Hz"
            raise document.mistake(("turns", index, "speech_end_sample"), problem, _HINTS["speech_end_sample"])
        return _turn(path, source, turn, rate_hz, find_end)
    except BadAudio as error:
        raise document.mistake(at_audio, error.what, error.mend) from error


def _turn(path: Path, source: Source, turn: TurnFile, rate_hz: int, find_end: FindEnd) -> ScriptTurn:
    end = _speech_end(path, source, turn, find_end).at_rate(rate_hz)
    clip = _long_enough(source.to_clip(rate_hz), end)
    return ScriptTurn(clip, path, turn.text, end, Start(turn.start.after, turn.start.gap_ms), audio.sha256(clip))


def _speech_end(path: Path, source: Source, turn: TurnFile, find_end: FindEnd) -> SpeechEnd:
    if turn.speech_end_sample is not None:
        return SpeechEnd(turn.speech_end_sample, source.rate_hz, ANNOTATION)
    noted = sidecar.read(path, source)
    return find_end(source.samples, source.rate_hz, name=str(path)) if noted is None else noted


def _long_enough(clip: Clip, end: SpeechEnd) -> Clip:
    """The clip with the sample of its speech end in it.

    Lengths are rounded and the end is rounded up: speech up to a file's last sample can end one sample after the clip.
    """
    missing = end.index_samples + 1 - len(clip.pcm)
    if missing <= 0:
        return clip
    return Clip(np.pad(clip.pcm, (0, missing)), clip.rate_hz, (*clip.notes, f"{missing} sample of silence added"))
