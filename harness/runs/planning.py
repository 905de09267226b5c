"""From what was asked on the command line to a plan, and from a plan to the order of its dialogues."""

from __future__ import annotations

import importlib.metadata
import itertools
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clients.dialect import CLIENTS, Dialect, SessionOptions
from harness.dialogue.record import Pcm, TurnToSpeak
from harness.load.drive import arrivals_ns
from harness.runs.loop import loop_name
from metrics.table import definitions
from sessions import audio, sidecar
from sessions.clock import NS_PER_MS, NS_PER_S, wall_time
from sessions.errors import SetupError
from sessions.runs import Limits, Load, Plan, PlannedScript, PlannedTurn, RunFolder, Share, disk_errors
from sessions.scripts import Script
from sessions.scripts.format import DEFAULT_TIMEOUT_S
from sessions.secrets import Secrets
from sessions.tables import load

FRAME_MS = 20
DIALOGUES_AT_MOST = 1_000_000
_SHOWN_PACKAGES = ("duologue", "numpy", "soxr", "soundfile", "websockets", "aiohttp", "uvloop")


@dataclass(frozen=True, slots=True)
class Ask:
    """One measurement as the user asked for it. Secrets live here and nowhere in the plan."""

    target: str
    scripts: Sequence[Script]
    protocol: str = "openai-realtime"
    repeat: int = 1
    warmup: int = 0
    turn_detection: str = "manual"
    server_vad: dict[str, float] = field(default_factory=dict)
    voice: str = ""
    transcribe: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    api_key_env: str = ""
    limits: Limits = field(default_factory=Limits)
    weights: dict[str, str] = field(default_factory=dict)
    load: Load = field(default_factory=Load)
    shard: Share = field(default_factory=Share)
    workers: int = 1
    reflector: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """One dialogue of a plan. number: its place in the order, from 0."""

    number: int
    script: PlannedScript
    warmup: bool

    @property
    def id(self) -> str:
        return f"d{self.number + 1:04d}"


def make_plan(ask: Ask, secrets: Secrets, floor: dict[str, float]) -> Plan:
    """The plan for `ask`: everything that it needs to be repeated, nothing that is secret. Raises `SetupError`."""
    _must_be_countable(ask)
    dialect: Dialect = load(CLIENTS, ask.protocol, "protocol")(SessionOptions(turn_detection=ask.turn_detection))
    return Plan(
        created=wall_time(),
        target=secrets.mask_url(dialect.url(ask.target)),
        protocol=ask.protocol,
        protocol_class=dialect.protocol_class,
        turn_detection=ask.turn_detection,
        server_vad=ask.server_vad,
        voice=ask.voice,
        transcribe=ask.transcribe,
        headers=sorted(ask.headers),
        scripts=[_planned(script) for script in ask.scripts],
        repeat=0 if ask.load.duration_s else ask.repeat,
        warmup=ask.warmup,
        frame_ms=FRAME_MS,
        rate_hz=dialect.rate_hz,
        limits=ask.limits,
        definitions=definitions(),
        software=software(),
        floor=floor,
        api_key_env=ask.api_key_env,
        weights=ask.weights,
        load=ask.load,
        shard=ask.shard,
        workers=ask.workers,
        reflector=ask.reflector,
    )


def _must_be_countable(ask: Ask) -> None:
    """What is left to do is a list, which has to fit into memory. Raises `SetupError`."""
    rounds = ask.load.rate_per_s * ask.load.duration_s / len(ask.scripts) if ask.load.duration_s else ask.repeat
    dialogues = (ask.warmup + rounds) * len(ask.scripts)
    if dialogues > DIALOGUES_AT_MOST:
        raise SetupError(
            f"this would be {dialogues:,.0f} dialogues; a run holds at most {DIALOGUES_AT_MOST:,}",
            "Ask for fewer: a smaller --repeat, --warmup, --rate or --duration",
        )


def _planned(script: Script) -> PlannedScript:
    turns = [
        PlannedTurn(
            audio=turn.sha256,
            samples=len(turn.clip.pcm),
            last_sample=turn.speech_end.index_samples,
            method=turn.speech_end.method,
            text=turn.text,
            start_after=turn.start.after,
            gap_ms=turn.start.gap_ms,
            at_ms=turn.start.at_ms,
            timeout_s=turn.start.timeout_s,
            kind=turn.kind,
            onset_sample=turn.onset_sample,
            pauses=list(turn.pauses),
            watch_ms=turn.watch_ms,
            reference=turn.reference,
            keywords=list(turn.keywords),
            rubric=turn.rubric,
            language=turn.language,
        )
        for turn in script.turns
    ]
    return PlannedScript(
        name=script.name,
        sha256=script.sha256,
        language=script.language,
        instructions=script.instructions,
        turns=turns,
        perturb=script.perturb,
        perturb_seed=script.perturb_seed,
    )


def software() -> dict[str, str]:
    """Versions of what touches the clock or the audio."""
    versions = {"python": platform.python_version(), "platform": platform.platform(), "loop": loop_name()}
    for name in _SHOWN_PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    versions["implementation"] = sys.implementation.name
    return versions


def store_clips(run: RunFolder, scripts: Sequence[Script]) -> None:
    """Keep every clip of the plan in the run folder, by content, with its end of speech beside it.

    A run of these files then has the same ends, and the same word on who found them.
    """
    for script in scripts:
        for turn in script.turns:
            place = run.clip(turn.sha256)
            if not place.exists():
                audio.write_flac(place, turn.clip.pcm, turn.clip.rate_hz)
                if not turn.silence:
                    sidecar.write(place, turn.speech_end)


def slot_of(plan: Plan, number: int) -> Slot:
    """The dialogue at a place in the plan's order: first the warm-up rounds; each round performs every script.

    Raises `SetupError` where the plan has no script.
    """
    if not plan.scripts:
        raise SetupError("the plan has no script", "Its plan.json is damaged: take the run from where it was made")
    rounds, place = divmod(number, len(plan.scripts))
    return Slot(number, plan.scripts[place], rounds < plan.warmup)


def planned(plan: Plan) -> int | None:
    """How many dialogues the plan holds, warm-up included. None where the time decides (closed loop by duration)."""
    if not plan.load.duration_s:
        return (plan.warmup + plan.repeat) * len(plan.scripts)
    if not plan.load.rate_per_s:
        return None
    within_ns = plan.load.duration_s * NS_PER_S
    arrivals = sum(1 for _ in itertools.takewhile(lambda offset_ns: offset_ns < within_ns, arrivals_ns(plan.load)))
    return -(-arrivals // len(plan.scripts)) * len(plan.scripts)  # whole rounds


def schedule(plan: Plan) -> list[Slot]:
    """All dialogues in order, of a plan that has a number of them."""
    total = planned(plan)
    assert total is not None, "the time decides how many there are"
    return [slot_of(plan, number) for number in range(total)]


def planned_clip(run: RunFolder, turn: PlannedTurn, rate_hz: int, *, mend: str) -> audio.Clip:
    """A turn's audio, from the run folder. Raises `SetupError`, with that mend, where it is no longer the plan's."""
    place = run.clip(turn.audio)
    clip = audio.load(place, rate_hz=rate_hz)
    if audio.sha256(clip) != turn.audio:
        raise SetupError(f"{place} no longer holds the audio that the plan names", mend)
    if not -1 <= turn.last_sample < len(clip.pcm):
        raise SetupError(f"the plan's last_sample {turn.last_sample} is not in {place}", mend)
    return clip


def turns_to_speak(run: RunFolder, script: PlannedScript) -> list[TurnToSpeak]:
    """The script's turns with their audio, from the run folder. Raises `SetupError` where a clip was damaged."""
    turns = []
    for turn in script.turns:
        clip = planned_clip(run, turn, run.plan.rate_hz, mend="Start a new run from the script")
        turns.append(to_speak(turn, clip.pcm))
    return turns


def to_speak(turn: PlannedTurn, pcm: Pcm) -> TurnToSpeak:
    """A planned turn with its audio, int16 (samples,)."""
    # Its default stands for no word of the script: then the limits of a reply hold, which a slow server may need.
    is_default = turn.start_after == "reply" and turn.timeout_s == DEFAULT_TIMEOUT_S
    return TurnToSpeak(
        pcm,
        turn.last_sample,
        turn.method,
        round(turn.gap_ms * NS_PER_MS),
        after=turn.start_after,
        at_ns=round((turn.at_ms or 0) * NS_PER_MS),
        timeout_ns=None if is_default else round(turn.timeout_s * NS_PER_S),
        kind=turn.kind,
        onset_sample=turn.onset_sample,
        pauses=tuple(turn.pauses),
        watch_ms=turn.watch_ms,
    )


def free_space(path: Path, needed_bytes: int) -> None:
    """Raise `SetupError` when the place for a run has no room even for its beginning."""
    place = path
    with disk_errors(path):
        while not place.exists() and place != place.parent:
            place = place.parent
        free = shutil.disk_usage(place).free
    if free < needed_bytes:
        raise SetupError(
            f"only {free // 1024} kB are free at {place}; a run needs at least {needed_bytes // 1024} kB to begin",
            "Free some space, or choose another --out",
        )
