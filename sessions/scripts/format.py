"""The file format of a session script, as it stands in YAML. docs/scripts.md tells it to people."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

VERSION = 1
DEFAULT_GAP_MS = 300
DEFAULT_TIMEOUT_S = 30.0
DEFAULT_WATCH_MS = 2000

SOUNDS = ("audio", "say", "parts", "silence_ms")
"""A turn has exactly one of these."""
PART_SOUNDS = ("audio", "say", "pause_ms")
"""A part of a turn has exactly one of these."""

_NAME = r"^[a-z0-9][a-z0-9._-]*$"
_LANGUAGE = r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$"

_Path = Annotated[str, Meta(pattern=r"^[^\x00-\x1f]+$", description="audio file, by its path from the script's folder")]
_Say = Annotated[str, Meta(min_length=1, max_length=4000, description="text to be spoken by an installed voice")]
_EndSample = Annotated[
    Annotated[int, Meta(ge=0)] | None,
    Meta(
        description="index (from 0) of the last speech sample, at the file's own rate; "
        "if not given: as a sidecar of the audio says, else found in it"
    ),
]
_Millis = Annotated[int, Meta(ge=0, le=600_000)]


class StartFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a turn starts, judged by what is heard."""

    after: Annotated[
        Literal["reply", "onset", "speech"],
        Meta(
            description="reply: when the reply to the turn before has been heard to its end (first turn: session "
            "ready) · onset: when the first sound of the reply to the last turn that expects one was heard · speech: "
            "when the user's own utterance before has ended"
        ),
    ] = "reply"
    gap_ms: Annotated[_Millis, Meta(description="milliseconds from that event to the turn's first sample")] = (
        DEFAULT_GAP_MS
    )
    at_ms: Annotated[
        Annotated[int, Meta(ge=0, le=7_200_000)] | None,
        Meta(description="in place of after and gap_ms: milliseconds after the session was ready"),
    ] = None
    timeout_s: Annotated[
        float, Meta(gt=0, le=3600, description="how long to wait for the event before the turn is given up, seconds")
    ] = DEFAULT_TIMEOUT_S


class PartFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of one utterance: sound from a file, words to be spoken, or a pause between two of these."""

    audio: _Path | None = None
    say: _Say | None = None
    pause_ms: Annotated[
        Annotated[int, Meta(ge=1, le=60_000)] | None,
        Meta(description="from the last speech sample before it to the first one after it"),
    ] = None
    text: Annotated[str, Meta(description="what is said in the audio")] = ""
    voice: Annotated[str, Meta(description="who says it; the turn's voice if not given")] = ""
    speech_end_sample: _EndSample = None


class TurnFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One user utterance (or silence). Exactly one of audio, say, parts and silence_ms."""

    audio: _Path | None = None
    say: _Say | None = None
    parts: Annotated[
        tuple[PartFile, ...], Meta(description="one utterance in pieces, with pauses between them; at least one")
    ] = ()
    silence_ms: Annotated[
        Annotated[int, Meta(ge=1, le=600_000)] | None, Meta(description="say nothing for so many milliseconds")
    ] = None
    text: Annotated[str, Meta(description="what is said in it")] = ""
    voice: Annotated[str, Meta(description="who says it, where it is spoken by an installed voice")] = ""
    speech_end_sample: _EndSample = None
    kind: Annotated[
        Literal["speech", "interruption", "overlap", "backchannel", "noise", "silence"],
        Meta(
            description="speech, interruption (should stop the assistant) and overlap (should not) expect a reply; "
            "backchannel and noise should neither stop it nor be answered; silence (implied by silence_ms): it may "
            "stay quiet or ask again"
        ),
    ] = "speech"
    start: StartFile = StartFile()
    watch_ms: Annotated[
        _Millis,
        Meta(description="backchannel, noise, silence: how long after the sound the assistant is watched"),
    ] = DEFAULT_WATCH_MS
    reference: Annotated[str, Meta(description="an answer that is right, for scoring")] = ""
    keywords: Annotated[tuple[str, ...], Meta(description="words that a right answer has, for scoring")] = ()
    rubric: Annotated[str, Meta(description="what a judge should look at in the answer")] = ""
    language: Annotated[
        Annotated[str, Meta(pattern=_LANGUAGE)] | None,
        Meta(description="of this turn, as in en or pt-BR; the script's if not given"),
    ] = None


class ScriptFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session script: what the user side of a dialogue says, and when."""

    version: Annotated[Literal[1], Meta(description="of this format")]
    name: Annotated[str, Meta(pattern=_NAME, description="short name for tables and folders: a-z, 0-9, . _ -")]
    turns: Annotated[tuple[TurnFile, ...], Meta(min_length=1, description="in order")]
    description: Annotated[str, Meta(description="one line for people")] = ""
    language: Annotated[str, Meta(pattern=_LANGUAGE, description="of the dialogue, as in en or pt-BR")] = "en"
    agent: Annotated[str, Meta(description="instructions (system prompt) that the assistant gets")] = ""


STAND_INS: dict[str, object] = {
    "version": VERSION,
    "name": "x",
    "audio": "x",
    "turns": [{"audio": "x"}],
    "parts": [{"audio": "x"}],
    "keywords": ["x"],
}
_AUDIO = "The path of an audio file from the script's folder, such as small-talk/turn-1.flac"
_LANGUAGE_TAG = "A language tag such as en or pt-BR"
_MILLIS = "Whole milliseconds from 0 to 600000"
HINTS = {
    "version": f"Known versions: {VERSION}",
    "name": "A short name of a-z, 0-9, '.', '_', '-', such as small-talk",
    "audio": _AUDIO,
    "say": "The words to be spoken, at most 4000 letters",
    "turns": "A list with at least one turn, each with its audio",
    "parts": "A list of parts, each with audio, say or pause_ms",
    "silence_ms": "Whole milliseconds from 1 to 600000",
    "pause_ms": "Whole milliseconds from 1 to 60000",
    "language": _LANGUAGE_TAG,
    "kind": "Known: speech, interruption, overlap, backchannel, noise, silence",
    "after": "Known: reply, onset, speech",
    "gap_ms": _MILLIS,
    "watch_ms": _MILLIS,
    "at_ms": "Whole milliseconds after the session was ready, at most 7200000",
    "timeout_s": "Seconds, more than 0 and at most 3600",
    "speech_end_sample": "A whole number: the index of the last speech sample, from 0",
    "keywords": "A list of words",
}


def json_schema() -> dict[str, Any]:
    """The format as a JSON Schema (2020-12), as shipped in `sessions/library/script.schema.json`."""
    schema = msgspec.json.schema(ScriptFile)
    for name, sounds in (("TurnFile", SOUNDS), ("PartFile", PART_SOUNDS)):
        schema["$defs"][name]["oneOf"] = [{"required": [sound]} for sound in sounds]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "duologue session script"}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({**head, **schema}))
    return plain
