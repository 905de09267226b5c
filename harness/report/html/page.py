"""One self-contained page: style, script, data and recordings are in it, and it may load nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

from harness.report.html.blob import PART_LABELS, audio_scripts, data_script, page_data
from harness.report.html.charts import latency_section
from harness.report.html.markup import Markup, escape, join, tag
from harness.report.html.plan_section import how_section
from harness.report.html.scores import scores_link, scores_section
from harness.report.html.tables import figures_section
from harness.report.html.verdict import page_header
from harness.report.summary import Summary
from harness.report.wording import DASH
from harness.results.dialogue_result import DialogueResult
from sessions.runs import Plan

AUDIO_BYTES_AT_MOST = 12_000_000
"""What recordings may take of the page, about 35 minutes of speech; those beyond are played from the run folder."""
SCRIPTS = ("base.js", "player.js", "timeline.js", "turns.js", "dialogues.js")
"""One script in parts: each uses what stands in those before it."""


def render_page(
    plan: Plan,
    summary: Summary,
    dialogues: list[DialogueResult],
    folder: Path,
    *,
    audio_bytes_at_most: int = AUDIO_BYTES_AT_MOST,
) -> str:
    """The whole page. folder: the run's, where the recordings are."""
    style, script = _asset("report.css"), _script()
    audio = audio_scripts(dialogues, folder, audio_bytes_at_most)
    scores = scores_section(folder, dialogues)
    return Template(_asset("page.html")).substitute(
        policy=_policy(style, script),
        title=escape(f"{plan.target}: speech-to-speech latency"),
        style=style,
        script=script,
        header=page_header(plan, summary),
        latency=latency_section(summary, dialogues),
        figures=figures_section(summary),
        scores=scores,
        scores_link=scores_link(scores),
        turns=_turns_section(summary),
        dialogues=_dialogues_section(_beyond(dialogues, audio)),
        how=how_section(plan, summary),
        footer=_footer(plan, alone=len(audio) == sum(bool(one.recording) for one in dialogues)),
        data=data_script(page_data(dialogues, folder)),
        audio=join(audio.values(), "\n"),
    )


def _script() -> str:
    parts = "\n".join(_asset(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _beyond(dialogues: list[DialogueResult], audio: Mapping[int, Markup]) -> str:
    """Which recordings are not in the page, "" where all are."""
    recorded = [position for position, dialogue in enumerate(dialogues) if dialogue.recording]
    missing = [position for position in recorded if position not in audio]
    if not missing:
        return ""
    where = "from the run folder, as long as this file lies in it"
    if not audio:
        return f"The recordings are too long for this file; they play {where}."
    carried, others = _ranges(audio), _ranges(missing)
    return f"This file carries the sound of {carried}; the recordings of {others} play {where}."


def _ranges(positions: Iterable[int]) -> str:
    """ "dialogues 1–3 and 5", counted from 1."""
    runs: list[list[int]] = []
    for position in sorted(positions):
        if runs and position == runs[-1][1] + 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    texts = [f"{first + 1}" if first == last else f"{first + 1}{DASH}{last + 1}" for first, last in runs]
    single = len(runs) == 1 and runs[0][0] == runs[0][1]
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"dialogue{'' if single else 's'} {listed}"


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


def _dialogues_section(beyond: str) -> Markup:
    text = (
        "Each conversation on its own clock, as someone between the two would have heard it: the user in the left "
        "channel, the agent in the right. Click into a timeline to listen from there; with the keyboard, space plays "
        "and stops, the arrows move by a second (with shift, by a tenth), page up and page down from turn to turn. "
        "Wave height is the square root of the level, so that quiet sound shows too."
    )
    scales = [
        tag("button", label, type="button", data_scale=scale, aria_pressed="true" if scale == 0 else "false")
        for scale, label in ((0, "fit"), (100, "wide"), (250, "wider"), (800, "widest"))
    ]
    folds = [
        tag("button", label, type="button", data_fold=fold) for fold, label in (("open", "Open all"), ("", "Close all"))
    ]
    return join(
        [
            tag("h2", "Dialogues"),
            tag("p", text, class_="legend"),
            *([tag("p", beyond, class_="note quiet", id="beyond")] if beyond else []),
            tag("p", *_glyphs(), class_="legend"),
            tag("div", tag("span", "Scale", class_="soft"), *scales, tag("span", class_="gap"), *folds, class_="tools"),
            tag("div", _no_script(), id="dialogue-list"),
        ]
    )


def _glyphs() -> list[Markup]:
    """The legend of the timelines, in the order of what happens."""
    line, rect, path = ("line", "rect", "path")

    def upright(class_: str) -> Markup:
        return tag(line, class_=class_, x1=7, x2=7, y1=0, y2=12)

    def block(class_: str, y: int = 0, height: int = 12) -> Markup:
        return tag(rect, class_=class_, x=0, y=y, width=14, height=height)

    return [
        _glyph("user's last speech sample", upright("mark-end")),
        _glyph("turn committed", tag(path, class_="mark-commit", d="M7 1 l4 5 l-4 5 l-4 -5 Z")),
        _glyph("server heard speech start, stop", tag(path, class_="mark-vad", d="M2 10 V3 H6 M12 3 V10 H8")),
        _glyph("first packet arrived", tag(path, class_="mark-packet", d="M7 11 l-4 -8 h8 Z")),
        _glyph("reply audible", upright("mark-heard")),
        _glyph("end of reply", upright("mark-done")),
        _glyph("cancelled by us", tag(path, class_="mark-cancel", d="M3 2 l8 8 M11 2 l-8 8")),
        _glyph("rest dropped", tag(path, class_="mark-flush", d="M3 2 l8 8 M11 2 l-8 8")),
        _glyph("voice-to-voice", block("span")),
        *(_glyph(label, block(f"part {name}", 3, 6)) for name, label in PART_LABELS.items()),
        _glyph("pause of the user", block("stretch pause")),
        _glyph("both at once", block("stretch overlap")),
        _glyph("underrun", block("stretch underrun")),
        _glyph("never heard", block("stretch dropped", 4, 4)),
    ]


def _glyph(label: str, shape: Markup) -> Markup:
    return tag("span", tag("svg", shape, width=14, height=12, aria_hidden="true"), label, class_="key")


def _no_script() -> Markup:
    return tag(
        "noscript",
        tag("p", "This part is drawn by a script in this file, and scripts are switched off.", class_="note"),
    )


def _footer(plan: Plan, *, alone: bool) -> Markup:
    version = plan.software.get("duologue", "")
    files_beside = "The run folder beside this file also holds summary.json, turns.csv and every message as it came."
    own = "This file needs no network" + (" and no other file." if alone else ".")
    return tag("p", f"Made by duologue {version}. {own} {files_beside}")
