"""The archive of a case. The same turn gives the same bytes."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import soundfile

from harness.case.masking import Masking
from harness.case.messages import message_lines
from harness.case.story import case_fields, page, plan_excerpt
from harness.case.turn import Case, find_case
from sessions.clock import NS_PER_S
from sessions.errors import BadAudio, SetupError
from sessions.events import encode_log
from sessions.runs import AGAIN, RunFolder, disk_errors, write_atomic


def pack_case(run: RunFolder, name: str, out: Path | None = None) -> Path:
    """Write the archive and tell where. out: the file; None: in the run folder's `cases/`. Raises `SetupError`."""
    case = find_case(run, name)
    place = run.path / "cases" / f"{case.name}.zip" if out is None else out
    if place.is_dir():
        raise SetupError(f"--out {place} is a folder", f"Name a file in it: --out {place / f'{case.name}.zip'}")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in _files(case, Masking(run.plan)):
            # Without a time of its own, for two packings to be equal.
            entry = zipfile.ZipInfo(f"{case.name}/{file}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    with disk_errors(place, then=AGAIN):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, packed.getvalue())
    return place


def _files(case: Case, masking: Masking) -> Iterator[tuple[str, bytes]]:
    yield "README.txt", masking.text(page(case)).encode("utf-8", "replace")
    fields = masking.message(case_fields(case))
    yield "case.json", json.dumps(fields, indent=2, ensure_ascii=False).encode("utf-8", "replace")
    lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in message_lines(case, masking))
    yield "messages.jsonl", "".join(lines).encode("utf-8", "replace")
    yield "plan.json", masking.text(plan_excerpt(case).decode()).encode()
    shown = [event for event in case.events if case.from_ns <= event.t_ns <= case.until_ns]
    yield "events.jsonl", masking.text(encode_log(shown).decode()).encode()
    lanes = _lanes(case)
    if lanes is not None:
        yield "turn.flac", lanes
    reply = case.run.dialogue(case.dialogue.id) / f"reply-{case.index + 1}.flac"
    if reply.is_file():
        yield "reply.flac", reply.read_bytes()


def _lanes(case: Case) -> bytes | None:
    """Both lanes from `from_ns` to `until_ns`, None where no session came about or the turn never began."""
    ready_ns = case.dialogue.ready_ns
    if ready_ns is None or not case.dialogue.recording or not case.result.instants_ns:
        return None
    path = case.run.path / case.dialogue.recording
    try:
        with soundfile.SoundFile(os.fsencode(path)) as file:
            first, end = (
                min(max(0, (t_ns - ready_ns) * file.samplerate // NS_PER_S), file.frames)
                for t_ns in (case.from_ns, case.until_ns)
            )
            file.seek(first)
            samples, rate_hz = file.read(end - first, dtype="int16", always_2d=True), file.samplerate
    except soundfile.LibsndfileError as error:
        mend = f"Make it again: duologue rescore {case.run.path}"
        raise BadAudio(f"cannot use {path}: {error.error_string.strip().rstrip('.')}", mend) from error
    out = io.BytesIO()
    soundfile.write(out, samples, rate_hz, format="FLAC", subtype="PCM_16")
    return out.getvalue()
