"""`report.html`: one file that opens offline and shows a run to someone who never saw this tool."""

from __future__ import annotations

from pathlib import Path

from harness.report.html.page import AUDIO_BYTES_AT_MOST, render_page
from harness.report.summary import Summary
from harness.results.dialogue_result import DialogueResult
from sessions.runs import Plan, RunFolder, disk_errors, write_atomic

__all__ = ["AUDIO_BYTES_AT_MOST", "build_report", "render_page"]


def build_report(run: RunFolder, plan: Plan, summary: Summary, dialogues: list[DialogueResult]) -> Path:
    """Write `report.html` into the run folder, whole or not at all. Raises `SetupError` where the disk refuses."""
    path = run.path / "report.html"
    page = render_page(plan, summary, dialogues, run.path)
    with disk_errors(path, then=f"give: duologue report {run.path}"):
        write_atomic(path, page)
    return path
