"""Session scripts: what the user side of a dialogue says, and when each turn starts.

A script is one YAML file, `version: 1`, with its audio beside it (docs/scripts.md). `load_script` reads it, checks it
to the line, reads the audio and finds where each utterance ends, so that what it returns is ready to be spoken. The
script's own word on that comes first, then the sidecar of the audio file, then the method `find_end`. Text to be spoken
goes to a voice that is handed in: this package loads no model.
"""

from sessions.scripts.format import (
    DEFAULT_GAP_MS,
    VERSION,
    PartFile,
    ScriptFile,
    StartFile,
    TurnFile,
    json_schema,
)
from sessions.scripts.load import (
    RATE_HZ,
    check_script,
    examine,
    find_script,
    library,
    load_script,
    read_script_file,
    script_from_audio,
)
from sessions.scripts.script import EXPECT_A_REPLY, Script, ScriptTurn, Start
from sessions.scripts.utterance import Speak

__all__ = [
    "DEFAULT_GAP_MS",
    "EXPECT_A_REPLY",
    "RATE_HZ",
    "VERSION",
    "PartFile",
    "Script",
    "ScriptFile",
    "ScriptTurn",
    "Speak",
    "Start",
    "StartFile",
    "TurnFile",
    "check_script",
    "examine",
    "find_script",
    "json_schema",
    "library",
    "load_script",
    "read_script_file",
    "script_from_audio",
]
