"""Whether two runs may stand side by side: what must be equal, and what is only remarked."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.report.share_wording import shard_text
from harness.report.wording import start_of
from sessions.errors import SetupError
from sessions.runs import Plan, PlannedScript, PlannedTurn, Share

Told = tuple[str, str]
"""What A has and what B has, in short."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Mismatch:
    """field: one of `MUST_BE_EQUAL`, as `--allow` takes it · a, b: what each run has there, in short."""

    field: str
    a: str
    b: str

    def __str__(self) -> str:
        return f"{self.field}: A has {self.a}, B has {self.b}"


def judged_fit(a: Plan, b: Plan, allowed: Sequence[str]) -> list[Mismatch]:
    """What differs and was allowed by name.

    Raises `SetupError` for a difference that was not, and for a name in `allowed` that is no field.
    """
    for name in allowed:
        if name not in MUST_BE_EQUAL:
            near = difflib.get_close_matches(name, MUST_BE_EQUAL, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise SetupError(f"--allow {name}: no such field", f"{hint}Known: {', '.join(MUST_BE_EQUAL)}")
    found = mismatches(a, b)
    refused = [mismatch for mismatch in found if mismatch.field not in allowed]
    if refused:
        options = " ".join(f"--allow {mismatch.field}" for mismatch in refused)
        raise SetupError(
            f"these runs cannot be compared: {'; '.join(map(str, refused))}",
            f"Measure both under the same conditions, or say that you know: {options}",
        )
    return found


def mismatches(a: Plan, b: Plan) -> list[Mismatch]:
    """Every field that must be equal and is not."""
    found = ((name, differ(a, b)) for name, differ in MUST_BE_EQUAL.items())
    return [Mismatch(name, *told) for name, told in found if told is not None]


def remarks(a: Plan, b: Plan) -> list[str]:
    """What differs and does not forbid the comparison; often it is the very thing that is compared."""
    found = ((name, differ(a, b)) for name, differ in _REMARKED.items())
    return [f"{name}: A has {told[0]}, B has {told[1]}" for name, told in found if told is not None]


def _differ(tell: Callable[[Plan], str]) -> Callable[[Plan, Plan], Told | None]:
    """Compare by what is told."""
    return lambda a, b: (tell(a), tell(b)) if tell(a) != tell(b) else None


def _definitions(a: Plan, b: Plan) -> Told | None:
    """A definition that only one run knows is none of the other's figures."""
    both = sorted(a.definitions.keys() & b.definitions.keys())
    differing = [name for name in both if a.definitions[name] != b.definitions[name]]
    if not differing:
        return None
    more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
    first, second = (
        ", ".join(f"{name}/{plan.definitions[name]}" for name in differing[:_SHOWN]) + more for plan in (a, b)
    )
    return first, second


def _audio(a: Plan, b: Plan) -> Told | None:
    """By content: the clips of each script, in order. A script's name does not matter."""
    scripts_a, scripts_b = ({_clips(script): script for script in plan.scripts} for plan in (a, b))
    if scripts_a.keys() == scripts_b.keys():
        return None
    first, second = (
        [script for clips, script in own.items() if clips not in other]
        for own, other in ((scripts_a, scripts_b), (scripts_b, scripts_a))
    )
    return _scripts(first), _scripts(second)


def _clips(script: PlannedScript) -> tuple[str, ...]:
    return tuple(turn.audio for turn in script.turns)


def _scripts(scripts: Sequence[PlannedScript]) -> str:
    """ "garden (clips 0a1b2c3d, 4e5f6a7b)", of what the other run has not."""
    told = [
        f"{script.name} (clips {', '.join(clip[:8] for clip in _clips(script)[:_SHOWN])}"
        f"{' …' if len(script.turns) > _SHOWN else ''})"
        for script in scripts[:_SHOWN]
    ]
    return f"also {', '.join(told)}{' …' if len(scripts) > _SHOWN else ''}" if told else "no other"


def _speech_end(a: Plan, b: Plan) -> Told | None:
    """Of one clip, the last speech sample or who found it. Clips that only one run has are a matter of `audio`."""
    turns_a, turns_b = ({turn.audio: turn for script in plan.scripts for turn in script.turns} for plan in (a, b))
    for clip in sorted(turns_a.keys() & turns_b.keys()):
        told = _end(turns_a[clip]), _end(turns_b[clip])
        if told[0] != told[1]:
            return told
    return None


def _end(turn: PlannedTurn) -> str:
    return f"sample {turn.last_sample} of clip {turn.audio[:8]} ({turn.method})"


def _pacing(a: Plan, b: Plan) -> Told | None:
    """Frame length and rate; and of scripts that both have, when the user's turns start, and as what."""
    if (a.frame_ms, a.rate_hz) != (b.frame_ms, b.rate_hz):
        return _frames(a), _frames(b)
    pauses_a, pauses_b = ({_clips(script): _pauses(script) for script in plan.scripts} for plan in (a, b))
    for clips in pauses_a.keys() & pauses_b.keys():
        if pauses_a[clips] != pauses_b[clips]:
            return pauses_a[clips], pauses_b[clips]
    return None


def _frames(plan: Plan) -> str:
    return f"frames of {plan.frame_ms} ms at {plan.rate_hz} Hz"


def _pauses(script: PlannedScript) -> str:
    return "turns " + ", ".join(start_of(turn) for turn in script.turns)


def _vad(plan: Plan) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in sorted(plan.server_vad.items())) or "the server's own"


def _instructions(a: Plan, b: Plan) -> Told | None:
    said_a, said_b = (list(dict.fromkeys(script.instructions for script in plan.scripts)) for plan in (a, b))
    return (_beginning(said_a), _beginning(said_b)) if said_a != said_b else None


def _beginning(texts: Sequence[str]) -> str:
    text = " / ".join(texts)
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


MUST_BE_EQUAL: dict[str, Callable[[Plan, Plan], Told | None]] = {
    "protocol_class": _differ(lambda plan: plan.protocol_class),
    "turn_detection": _differ(lambda plan: plan.turn_detection),
    "server_vad": _differ(_vad),
    "definitions": _definitions,
    "audio": _audio,
    "speech_end": _speech_end,
    "pacing": _pacing,
}
"""Field → what the two have there, where it differs."""


def _load(plan: Plan) -> str:
    if plan.load.rate_per_s:
        most = f", at most {plan.load.max_sessions} at once" if plan.load.max_sessions else ""
        return f"{plan.load.rate_per_s:g} dialogues a second ({plan.load.arrivals}){most}"
    think = f", pausing {plan.load.think} between dialogues" if plan.load.think else ""
    return f"{plan.load.sessions} at once{think}"


def _part(plan: Plan) -> str:
    return "the whole plan" if plan.shard == Share() else f"shard {shard_text(plan.shard)} of its plan alone"


_REMARKED: dict[str, Callable[[Plan, Plan], Told | None]] = {
    "protocol": _differ(lambda plan: plan.protocol),
    "voice": _differ(lambda plan: plan.voice or "the server's own"),
    "load": _differ(_load),
    "performed": _differ(_part),
    "lateness limit": _differ(lambda plan: f"{plan.limits.lateness_ms:g} ms"),
    "instructions": _instructions,
}
