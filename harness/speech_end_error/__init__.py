"""How far the methods that find the end of speech are off, measured against marked audio of our own.

`marked` builds audio whose true end is known to the sample, `methods` knows the methods by name, `errors` measures
them. `measured.json` is what `duologue scripts speech-end-error --json` printed; `bound_ms` reads it, for the line
under every table whose turns have an end that nobody annotated. docs/speech-end.md tells the rest.
"""

from __future__ import annotations

import functools
from importlib.resources import files

import msgspec

from sessions.runs import indented

TABLE_VERSION = 1


class Figures(msgspec.Struct, frozen=True):
    """found − true over marked clips.

    n: clips in which an end was found · missed: those in which none was · bias_ms: mean error, positive = too late ·
    p50_ms, p95_ms, max_ms: of the error's magnitude. None where n is 0.
    """

    n: int
    missed: int
    bias_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    max_ms: float | None


class MethodErrors(msgspec.Struct, frozen=True):
    """One method. conditions: by name · pooled: all clips of all conditions · unavailable: why there is neither."""

    method: str
    conditions: dict[str, Figures] = {}
    pooled: Figures | None = None
    unavailable: str = ""


class ErrorTable(msgspec.Struct, frozen=True):
    """marked_audio: name and version of what was measured on."""

    marked_audio: str
    methods: list[MethodErrors]
    version: int = TABLE_VERSION


def encode_table(table: ErrorTable) -> str:
    """The table as it is printed and shipped."""
    return indented(table).decode() + "\n"


@functools.cache
def measured() -> ErrorTable:
    """The table that is shipped."""
    return msgspec.json.decode((files(__name__) / "measured.json").read_bytes(), type=ErrorTable)


def bound_ms(method: str) -> tuple[float, float] | None:
    """(p50, p95) of the magnitude of the method's own error, pooled over all marked audio.

    None for an annotation, and for a method that was not measured.
    """
    for entry in measured().methods:
        figures = entry.pooled
        if entry.method == method and figures and figures.p50_ms is not None and figures.p95_ms is not None:
            return figures.p50_ms, figures.p95_ms
    return None
