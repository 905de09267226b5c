"""One self-contained page: style, script, data and recordings are in it, and it may load nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from string import Template

from harness.report.html.blob import audio_scripts, data_script, page_data
from harness.report.html.charts import latency_section
from harness.report.html.markup import Markup, escape, join, tag
from harness.report.html.plan_section import how_section
from harness.report.html.tables import figures_section
from harness.report.html.verdict import page_header
from harness.report.summary import Summary
from harness.results.dialogue_result import DialogueResult
from sessions.runs import Plan

AUDIO_BYTES_AT_MOST = 24_000_000
"""Above it the page holds no recordings and plays the files of the run folder instead."""


def render_page(
    plan: Plan,
    summary: Summary,
    dialogues: list[DialogueResult],
    folder: Path,
    *,
    audio_bytes_at_most: int = AUDIO_BYTES_AT_MOST,
) -> str:
    """The whole page. folder: the run's, where the recordings are."""
    style, script = _asset("report.css"), _asset("report.js")
    audio = audio_scripts(dialogues, folder, audio_bytes_at_most)
    return Template(_asset("page.html")).substitute(
        policy=_policy(style, script),
        title=escape(f"{plan.target}: speech-to-speech latency"),
        style=style,
        script=script,
        header=page_header(plan, summary),
        latency=latency_section(summary, dialogues),
        figures=figures_section(summary),
        turns=_turns_section(summary),
        dialogues=_dialogues_section(audio is None),
        how=how_section(plan, summary),
        footer=_footer(plan, audio is None),
        data=data_script(page_data(dialogues, folder)),
        audio=join(audio or [], "\n"),
    )


def _asset(name: str) -> str:
    return (files("harness.report.html") / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> Markup:
    """Only this style and this script may run, and only recordings may be loaded: not even a bug here lets more in."""
    return escape(
        "default-src 'none'; base-uri 'none'; form-action 'none'; media-src blob: file: 'self'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _turns_section(summary: Summary) -> Markup:
    attempts = summary.attempts
    spoken = [dialogue for dialogue in summary.spoken if dialogue.warmup]
    kinds = [("all", f"all {attempts.total}")]
    kinds += [(name, f"{getattr(attempts, name)} {name}") for name in ("completed", "invalid", "failed")]
    if spoken:
        kinds.append(("warmup", f"{sum(len(dialogue.turns) for dialogue in spoken)} warm-up"))
    buttons = [
        tag("button", label, type="button", data_kind=name, aria_pressed="true" if name == "all" else "false")
        for name, label in kinds
    ]
    legend = (
        "One row per attempt; times in milliseconds after the user's last speech sample. Rest the pointer on a dash to "
        "see why there is no value. The play button starts a second before the user's last word ends. "
        "A column's title sorts."
    )
    return join(
        [
            tag("h2", "Turns"),
            tag("p", legend, class_="legend"),
            tag("div", *buttons, class_="tools"),
            tag("div", _no_script(), id="turn-list"),
            tag("div", tag("button", "Show all", id="more", type="button", hidden=True), class_="tools"),
        ]
    )


def _dialogues_section(linked: bool) -> Markup:
    glyphs = [
        _glyph("user's last speech sample", tag("line", class_="mark-end", x1=7, x2=7, y1=0, y2=12)),
        _glyph("first packet arrived", tag("path", class_="mark-packet", d="M7 11 l-4 -8 h8 Z")),
        _glyph("reply audible", tag("line", class_="mark-heard", x1=7, x2=7, y1=0, y2=12)),
        _glyph("voice-to-voice", tag("rect", class_="span", x=0, y=0, width=14, height=12)),
        _glyph("end of reply", tag("line", class_="mark-done", x1=7, x2=7, y1=0, y2=12)),
    ]
    text = (
        "Each conversation on its own clock, as someone between the two would have heard it: the user in the left "
        "channel, the agent in the right. Click into a timeline to listen from there. "
        "Wave height is the square root of the level, so that quiet sound shows too."
    )
    if linked:
        text += " The recordings are too long for this file; they play as long as it lies in its run folder."
    scales = [
        tag("button", label, type="button", data_scale=scale, aria_pressed="true" if scale == 0 else "false")
        for scale, label in ((0, "fit"), (100, "wide"), (250, "wider"), (800, "widest"))
    ]
    return join(
        [
            tag("h2", "Dialogues"),
            tag("p", text, class_="legend"),
            tag("p", *glyphs, class_="legend"),
            tag("div", tag("span", "Scale", class_="soft"), *scales, class_="tools"),
            tag("div", _no_script(), id="dialogue-list"),
        ]
    )


def _glyph(label: str, shape: Markup) -> Markup:
    return tag("span", tag("svg", shape, width=14, height=12, aria_hidden="true"), label, class_="key")


def _no_script() -> Markup:
    return tag(
        "noscript",
        tag("p", "This part is drawn by a script in this file, and scripts are switched off.", class_="note"),
    )


def _footer(plan: Plan, linked: bool) -> Markup:
    version = plan.software.get("duologue", "")
    files_beside = "The run folder beside this file also holds summary.json, turns.csv and every message as it came."
    own = "This file needs no network" + ("." if linked else " and no other file.")
    return tag("p", f"Made by duologue {version}. {own} {files_beside}")
