"""Runs of one plan, performed by several hosts, put together to one: raw records as they are, everything else anew."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.calibrate.bound import Check, Part, add_part, read_parts
from harness.network import log as network_log
from harness.report.wording import one_line, plural
from harness.runs.losses import Loss, add_losses, read_losses
from harness.runs.planning import planned, slot_of
from harness.runs.remaining import TIME_SPENT
from sessions.errors import SetupError
from sessions.runs import SIDECAR, JournalLine, MergedPart, Plan, RunFolder, Share, disk_errors, write_atomic

RAW = ("events.jsonl", "received.bin")
JOINED = (network_log.FILE, TIME_SPENT)
"""Lines of all pieces, one piece after another: who reads them knows that a run has several stretches."""
OWN = frozenset({"created", "software", "floor", "shard", "workers", "merged", "api_key_env"})
"""What may differ: where and when a part was performed, not what."""
_NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """One of the runs. name: of its folder, told apart from the others' · lines: its journal, in its order."""

    name: str
    run: RunFolder
    lines: list[JournalLine]


@dataclass(frozen=True, slots=True)
class Merged:
    """missing: ids of the plan's dialogues that no piece has."""

    run: RunFolder
    missing: list[str]


def merge(paths: Sequence[Path], out: Path) -> Merged:
    """Make the run `out` from those at `paths`; it appears whole or not at all.

    Raises `SetupError` where the plans differ (the field is named), a dialogue is in two of them, or `out` is taken.
    """
    _same_run_twice(paths)
    with contextlib.ExitStack() as held:
        pieces = []
        for path, name in zip(paths, _names(paths), strict=True):
            run = RunFolder.open(path)
            held.enter_context(run.locked())
            pieces.append(Piece(name, run, run.journal()))
        _same_plan(pieces)
        _each_once(pieces)
        with _beside(out) as place:
            run = RunFolder.create(place, _plan(pieces))
            missing = _missing(run.plan, pieces)
            _copy(run, pieces)
            _keep_losses(run, pieces, missing)
            add_part(run.path, *_clock(pieces))
    return Merged(RunFolder.open(out), [slot_of(run.plan, number).id for number in missing])


def _same_run_twice(paths: Sequence[Path]) -> None:
    if len(paths) < 2:
        raise SetupError("nothing to merge", "Give two run folders or more")
    twice = [path for path, count in Counter(path.resolve() for path in paths).items() if count > 1]
    if twice:
        raise SetupError(f"{twice[0].name} is given twice", "Give each run once")


def _names(paths: Sequence[Path]) -> list[str]:
    """The folders' own names; with a number where two have the same."""
    names = [path.resolve().name for path in paths]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, 1)]


def _same_plan(pieces: Sequence[Piece]) -> None:
    first = pieces[0]
    for other in pieces[1:]:
        field = _difference(msgspec.to_builtins(first.run.plan), msgspec.to_builtins(other.run.plan))
        if field is not None:
            name, a, b = field
            raise SetupError(
                f"{first.name} and {other.name} have different plans: {name} is {_shown(a)} and {_shown(b)}",
                "Only runs of the same plan can be merged; compare others: duologue compare",
            )


def _difference(a: object, b: object, name: str = "") -> tuple[str, object, object] | None:
    """The first field in which two plans differ, as `limits.reply_s` or `scripts[0].sha256`, and its two values."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        inner = ((f"{name}.{key}".lstrip("."), a[key], b[key]) for key in a if name or key not in OWN)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        inner = ((f"{name}[{index}]", *pair) for index, pair in enumerate(zip(a, b, strict=True)))
    else:
        return None if a == b else (name, a, b)
    found = (_difference(one, other, below) for below, one, other in inner)
    return next((difference for difference in found if difference is not None), None)


def _shown(value: object) -> str:
    text = one_line(msgspec.json.encode(value).decode())
    return text if len(text) <= 60 else f"{text[:60]}…"


def _each_once(pieces: Sequence[Piece]) -> None:
    seen: dict[int, str] = {}
    for piece in pieces:
        for line in piece.lines:
            if line.number in seen:
                raise SetupError(
                    f"dialogue {line.id} is in {seen[line.number]} and in {piece.name}", "Merge shards of one plan only"
                )
            seen[line.number] = piece.name


@contextlib.contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A new folder that takes the place `out` when all went well, and goes when it did not."""
    place = out.with_name(f".{out.name}.part")
    with disk_errors(out):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise SetupError(f"{out} is there already", "Choose another --out")
        shutil.rmtree(place, ignore_errors=True)  # of a merge that was killed
    try:
        yield place
        with disk_errors(out):
            place.rename(out)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _plan(pieces: Sequence[Piece]) -> Plan:
    plans = [piece.run.plan for piece in pieces]
    return msgspec.structs.replace(
        plans[0],
        created=min(plan.created for plan in plans),
        software=_together([plan.software for plan in plans]),
        floor=_worst([plan.floor for plan in plans]),
        shard=Share(),
        workers=max(plan.workers for plan in plans),
        merged=[part for piece in pieces for part in _parts(piece)],
    )


def _parts(piece: Piece) -> list[MergedPart]:
    plan = piece.run.plan
    own = MergedPart(piece.name, plan.created, len(piece.lines), plan.shard, plan.workers, plan.software, plan.floor)
    return [msgspec.structs.replace(part, name=f"{piece.name}/{part.name}") for part in plan.merged] or [own]


def _together(several: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Each value once: hosts may differ."""
    keys = dict.fromkeys(itertools.chain.from_iterable(several))
    return {key: ", ".join(dict.fromkeys(one[key] for one in several if key in one)) for key in keys}


def _worst(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    keys = dict.fromkeys(itertools.chain.from_iterable(several))
    return {key: max(one[key] for one in several if key in one) for key in keys}


def _missing(plan: Plan, pieces: Sequence[Piece]) -> list[int]:
    """Places in the order that no piece has. Where the time decided, nobody knows how many there were to be."""
    done = {line.number for piece in pieces for line in piece.lines}
    return [number for number in range(planned(plan) or 0) if number not in done]


def _copy(run: RunFolder, pieces: Sequence[Piece]) -> None:
    """Records and clips byte for byte; the journal last, because it says what there is."""
    with disk_errors(run.path):
        for piece in pieces:
            for file in sorted((piece.run.path / "audio").glob("*.flac*")):
                if file.name.endswith((".flac", f".flac{SIDECAR}")) and not (run.path / "audio" / file.name).exists():
                    shutil.copyfile(file, run.path / "audio" / file.name)
            for line in piece.lines:
                run.dialogue(line.id).mkdir()
                for name in RAW:
                    shutil.copyfile(piece.run.dialogue(line.id) / name, run.dialogue(line.id) / name)
        for name in JOINED:
            whole = [line for piece in pieces for line in _whole_lines(piece.run.path / name)]
            if whole:
                write_atomic(run.path / name, b"".join(line + b"\n" for line in whole))
        lines = [msgspec.json.encode(line) + b"\n" for piece in pieces for line in piece.lines]
        write_atomic(run.path / "journal.jsonl", b"".join(lines))


def _whole_lines(file: Path) -> Iterator[bytes]:
    """Without those that a kill has torn."""
    for line in file.read_bytes().split(b"\n") if file.exists() else ():
        with contextlib.suppress(msgspec.DecodeError):
            msgspec.json.decode(line)
            yield line


def _keep_losses(run: RunFolder, pieces: Sequence[Piece], missing: Sequence[int]) -> None:
    losses = [
        msgspec.structs.replace(loss, who=f"{piece.name}: {loss.who}")
        for piece in pieces
        for loss in read_losses(piece.run.path)
    ]
    told = {number for loss in losses for number in loss.numbers}
    others = [number for number in missing if number not in told]
    if others:
        losses.append(Loss("the merge", f"found {plural(len(others), 'dialogue')} in no run", others))
    add_losses(run.path, losses)


def _clock(pieces: Sequence[Piece]) -> list[Part]:
    """The checks of all pieces, each under its name; also that there were none."""
    parts = []
    for piece in pieces:
        own = read_parts(piece.run.path) or [Part(Check(piece.run.plan.created, problem="this part was run without"))]
        for part in own:
            label = f"{piece.name}/{part.run}".rstrip("/")
            parts.append(msgspec.structs.replace(part, run=label))
    if not any(read_parts(piece.run.path) for piece in pieces):
        return []
    return parts


def named(ids: Sequence[str]) -> str:
    """The first few of them."""
    more = len(ids) - _NAMED_AT_MOST
    return ", ".join(ids[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
