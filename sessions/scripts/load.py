"""Reading scripts: from a name or a path to a script with its audio, or to every mistake in it."""

from __future__ import annotations

import difflib
import hashlib
import importlib.resources
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from sessions import audio, yaml_schema
from sessions.errors import BadAudio, BadFile, MissingExtra, MissingWeights, SetupError
from sessions.scripts import rules
from sessions.scripts.format import HINTS, STAND_INS, VERSION, PartFile, ScriptFile, TurnFile
from sessions.scripts.script import Script, ScriptTurn
from sessions.scripts.utterance import Piece, Speak, Utterance, joined, one_piece, script_turn, silence
from sessions.speech_end import FindEnd, energy_1

RATE_HZ = 24_000


def load_script(
    name_or_path: str | Path, *, rate_hz: int = RATE_HZ, find_end: FindEnd = energy_1, speak: Speak | None = None
) -> Script:
    """A shipped script by its name, or any script by its path, with its audio at `rate_hz`.

    find_end: how to find the end of speech that nobody annotated · speak: who says the texts of `say`.
    Raises `SetupError` for an unknown name (lists the known ones and the nearest) and `BadFile` for the first mistake
    in the file, with its line and field.
    """
    path = find_script(name_or_path)
    script, mistakes = examine(path, rate_hz=rate_hz, find_end=find_end, speak=speak)
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
    turns = []
    for path in map(Path, paths):
        utterance = one_piece(Piece(path, audio.read(path)), rate_hz, find_end)
        turns.append(script_turn(utterance, path, TurnFile(audio=str(path)), "", ""))
    stem = re.sub(r"[^a-z0-9]+", "-", Path(paths[0]).stem.lower()).strip("-") or "audio"
    name = stem if len(turns) == 1 else f"{stem}-and-{len(turns) - 1}-more"
    digest = hashlib.sha256("\n".join(turn.sha256 for turn in turns).encode()).hexdigest()
    return Script(name, "", "", "", None, digest, tuple(turns))


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
    path: str | Path, *, rate_hz: int = RATE_HZ, find_end: FindEnd = energy_1, speak: Speak | None = None
) -> tuple[Script | None, tuple[BadFile, ...]]:
    """A script with its audio, or all mistakes in it, in line order: the schema's, and those of the audio files.

    speak: who says the texts of `say`; without it such a turn is a mistake.
    """
    read, mistakes = _read(Path(path), _Loader(rate_hz, find_end, speak))
    if read is None or mistakes:
        return None, mistakes
    file, turns = read
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return Script(file.name, file.description, file.language, file.agent, Path(path), digest, tuple(turns)), ()


def check_script(path: str | Path) -> tuple[ScriptFile | None, tuple[BadFile, ...]]:
    """The file, or all mistakes in it and in its audio. Nothing is spoken: texts of `say` need no voice here."""
    read, mistakes = _read(Path(path), _Loader(RATE_HZ, energy_1, None, only_check=True))
    return (None if read is None or mistakes else read[0]), mistakes


def _read(path: Path, loader: _Loader) -> tuple[tuple[ScriptFile, list[ScriptTurn]] | None, tuple[BadFile, ...]]:
    try:
        document = yaml_schema.parse(path)
    except BadFile as error:
        return None, (error,)
    checked = _check(document)
    file, mistakes = checked.value, list(checked.mistakes)
    if file is None:
        return None, tuple(mistakes)
    turns: dict[int, ScriptTurn] = {}
    wrong = {mistake.field for mistake in mistakes}
    for index, turn in enumerate(file.turns):
        if "turns" in wrong or any(_spoils_sound(field, index) for field in wrong):
            continue
        try:
            loaded = loader.turn(document, index, turn, file.language)
        except BadFile as error:
            mistakes.append(error)
        else:
            turns |= {} if loaded is None else {index: loaded}
    if not wrong:
        mistakes += rules.collisions(document, turns)
    return (file, list(turns.values())), tuple(sorted(mistakes, key=lambda mistake: mistake.line or 0))


def _spoils_sound(field: str, index: int) -> bool:
    """Whether a mistake in `field` leaves nothing to be heard of a turn."""
    here = f"turns[{index}]"
    return field == here or re.match(rf"{re.escape(here)}\.(audio|say|parts|silence_ms)\b", field) is not None


def _check(document: yaml_schema.Document) -> yaml_schema.Checked[ScriptFile]:
    version = document.data.get("version") if isinstance(document.data, dict) else None
    if type(version) is int and version != VERSION:
        # What else is in the file follows rules that we do not know: its version is the only thing to say.
        mend = f"Known versions: {VERSION}. A newer duologue may read it"
        wrong = document.mistake(("version",), f"version {version} of the format is not known", mend)
        return yaml_schema.Checked(None, (wrong,))
    checked = yaml_schema.check(document, ScriptFile, stand_ins=STAND_INS, hints=HINTS)
    if checked.value is None:
        return checked
    mistakes = [*checked.mistakes, *rules.mistakes(document, checked.value, checked.mistakes)]
    return yaml_schema.Checked(checked.value, tuple(sorted(mistakes, key=lambda mistake: mistake.line or 0)))


@dataclass(frozen=True, slots=True)
class _Loader:
    """Reads the audio of turns. Every error is a `BadFile` with the line of the field at fault."""

    rate_hz: int
    find_end: FindEnd
    speak: Speak | None
    only_check: bool = False

    def turn(self, document: yaml_schema.Document, index: int, turn: TurnFile, language: str) -> ScriptTurn | None:
        """The turn; None where it is only checked and has to be spoken first."""
        at: tuple[yaml_schema.Key, ...] = ("turns", index)
        language = turn.language or language
        if turn.silence_ms is not None:
            return script_turn(silence(turn.silence_ms, self.rate_hz), None, turn, "", language)
        parts = turn.parts or (PartFile(turn.audio, turn.say, speech_end_sample=turn.speech_end_sample),)
        places = [(*at, "parts", number) for number in range(len(parts))] if turn.parts else [at]
        sounds: list[tuple[Utterance, int]] = []
        path, pause_ms, unspoken = None, 0, False
        for place, part in zip(places, parts, strict=True):
            if part.pause_ms is not None:
                pause_ms += part.pause_ms
                continue
            piece = self._piece(document, place, part, part.voice or turn.voice, language)
            if piece is None:
                unspoken = True
            else:
                sounds.append((self._sound(document, place, part, piece), pause_ms))
                path = path or piece.path
            pause_ms = 0
        if unspoken:
            return None
        texts = (part.text or part.say or "" for part in parts)
        text = turn.text or " ".join(text for text in texts if text)
        utterance = sounds[0][0] if len(sounds) == 1 else joined(sounds)
        return script_turn(utterance, path, turn, text, language)

    def _sound(
        self, document: yaml_schema.Document, at: tuple[yaml_schema.Key, ...], part: PartFile, piece: Piece
    ) -> Utterance:
        try:
            return one_piece(piece, self.rate_hz, self.find_end)
        except BadAudio as error:
            field = "audio" if part.say is None else "say"
            raise document.mistake((*at, field), error.what, error.mend) from error

    def _piece(
        self, document: yaml_schema.Document, at: tuple[yaml_schema.Key, ...], part: PartFile, voice: str, language: str
    ) -> Piece | None:
        """A part's sound. None where the part is to be spoken, and is only checked."""
        if part.say is not None:
            if self.only_check:
                return None
            path = self._spoken(document, (*at, "say"), part.say, voice, language)
            return Piece(path, audio.read(path))
        assert part.audio is not None
        path = _inside(document, (*at, "audio"), part.audio)
        try:
            source = audio.read(path)
        except BadAudio as error:
            raise document.mistake((*at, "audio"), error.what, error.mend) from error
        end = part.speech_end_sample
        if end is not None and end >= len(source.samples):
            problem = f"sample {end} is not in {part.audio}, which has {len(source.samples)} at {source.rate_hz} Hz"
            raise document.mistake((*at, "speech_end_sample"), problem, HINTS["speech_end_sample"])
        return Piece(path, source, end)

    def _spoken(
        self, document: yaml_schema.Document, at: tuple[yaml_schema.Key, ...], text: str, voice: str, language: str
    ) -> Path:
        if self.speak is None:
            raise document.mistake(at, "this text needs a voice, and this command has none", "Give an audio file")
        try:
            return self.speak(text, voice=voice, language=language)
        except (MissingExtra, MissingWeights):
            raise  # no mistake of the file
        except SetupError as error:
            raise document.mistake(at, error.what, error.mend) from error


def _inside(document: yaml_schema.Document, at: tuple[yaml_schema.Key, ...], name: str) -> Path:
    """The path of an audio file in the script's folder."""
    folder = Path(document.path).parent
    if Path(name).is_absolute() or PureWindowsPath(name).anchor:
        raise document.mistake(at, "this is not a path from the script's folder", HINTS["audio"])
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise document.mistake(at, f"{name} lies outside the script's folder", "Copy the audio beside it")
    return path
