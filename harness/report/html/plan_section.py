"""The section that lets a reader judge the figures and repeat the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from harness.report.devices_wording import device_lines
from harness.report.html.markup import Markup, join, tag
from harness.report.load_wording import load_arguments, load_lines
from harness.report.share_wording import share_arguments, share_lines
from harness.report.summary import Summary
from harness.report.wording import DASH, INSTANTS, describe_class, plural, start_of, words_for
from sessions.runs import Plan, indented
from sessions.scripts import RATE_HZ, library
from sessions.speech_end import ENERGY_1, FLOOR_1, SILERO_1

_FLOOR = {
    "wake_late_p50_ms": "timers wake late by, median",
    "wake_late_p99_ms": "timers wake late by, 99th percentile",
    "wake_late_max_ms": "timers wake late by, at most",
    "clock_read_ms": "reading the clock takes",
    "clock_step_max_ms": "largest step between two readings",
}
_WIDTH = 100
_NOT_MEASURES = {
    "gate": "what counts as audible",
    "playout": "when each sample would be heard",
    "repeats": "what counts as audio that came before",
    "statistics": "percentiles and intervals",
}


def how_section(plan: Plan, summary: Summary) -> Markup:
    """Conditions, command, scripts, instants, versions, the machine's floor, and the plan as it is on disk."""
    return join(
        [
            tag("h2", "How it was measured"),
            tag("p", _in_short(plan), class_="legend"),
            tag("h3", "Repeat it"),
            tag("pre", command_line(plan), id="command", class_="wrap"),
            tag("div", tag("button", "Copy", id="copy", type="button"), class_="tools"),
            *(tag("p", note, class_="soft") for note in _command_notes(plan)),
            tag(
                "div",
                tag("div", _conditions(plan, summary), _floor(summary)),
                tag("div", _software(plan, summary)),
                class_="columns",
            ),
            *_scripts(plan),
            _definitions(summary),
            tag(
                "details",
                tag("summary", "The plan in full (plan.json)"),
                tag("pre", indented(plan).decode(), class_="wrap"),
            ),
        ]
    )


def command_line(plan: Plan) -> str:
    """The command that asks for the same run again; what was secret stands as a name only."""
    defaults = type(plan.limits)()
    words = ["duologue", "talk" if plan.microphone else "measure", shlex.quote(plan.target)]
    words += _what_to_say(plan)
    options: list[tuple[str, object, object]] = [
        ("--protocol", plan.protocol, "openai-realtime"),
        ("--repeat", plan.repeat or 1, 1),
        ("--warmup", plan.warmup, 0),
        ("--turn-detection", plan.turn_detection, "server_vad" if plan.microphone else "manual"),
        ("--end-after", plan.microphone and plan.microphone.end_after_ms, None),
        *(("--vad", f"{name}={value:g}", None) for name, value in plan.server_vad.items()),
        ("--speech-end", _speech_end(plan), "floor-1" if plan.microphone else "energy-1"),
        ("--voice", plan.voice, ""),
        *(("--header", f"{name}: …", None) for name in plan.headers),
        ("--api-key-env", plan.api_key_env, ""),
        ("--reflector", plan.reflector, ""),
        *load_arguments(plan.load),
        *share_arguments(plan),
        ("--limit-lateness", plan.limits.lateness_ms, defaults.lateness_ms),
        ("--limit-reply", plan.limits.reply_s, defaults.reply_s),
        ("--limit-idle", plan.limits.idle_s, defaults.idle_s),
        ("--limit-connect", plan.limits.connect_s, defaults.connect_s),
        ("--limit-bytes", plan.limits.bytes_per_dialogue, defaults.bytes_per_dialogue),
    ]
    for name, value, default in options:
        if value != default:
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words.append(f"{name} {shlex.quote(text)}")
    one_line = " ".join(words)
    return one_line if len(one_line) <= _WIDTH else " \\\n    ".join([" ".join(words[:3]), *words[3:]])


def _speech_end(plan: Plan) -> str:
    """The option that found what was found: a clip keeps the end that somebody annotated."""
    methods = {turn.method for script in plan.scripts for turn in script.turns}
    known = {SILERO_1: "silero", ENERGY_1: "energy-1", FLOOR_1: "floor-1"}
    default = "floor-1" if plan.microphone else "energy-1"
    others = [name for method, name in known.items() if method in methods and name != default]
    return others[0] if others else default


def _what_to_say(plan: Plan) -> list[str]:
    if plan.microphone is not None:
        return ["--mic"]
    if all(script.name in library() for script in plan.scripts):
        return [f"--script {shlex.quote(script.name)}" for script in plan.scripts] + _perturbed(plan)
    if len(plan.scripts) == 1 and not plan.scripts[0].instructions:
        return [f"--audio audio/{shlex.quote(turn.audio)}.flac" for turn in plan.scripts[0].turns]
    return [f"--script {shlex.quote(script.name)}.yaml" for script in plan.scripts] + _perturbed(plan)


def _perturbed(plan: Plan) -> list[str]:
    """The options that perturb a script again. The audio that a run keeps is perturbed already."""
    first = plan.scripts[0]
    return [f"--perturb {first.perturb}", f"--perturb-seed {first.perturb_seed}"] if first.perturb else []


def _command_notes(plan: Plan) -> Iterable[str]:
    if "***" in plan.target or plan.headers or plan.api_key_env:
        yield "What was secret is not in this file: put in your own values where the command has …, *** or a variable."
    if plan.weights:
        yield "This run started the server itself; `duologue demo` does the same again."
    if plan.microphone is not None:
        yield "What was said is kept beside this file; `duologue replay` says it again, to any server."
    elif any(script.name not in library() for script in plan.scripts):
        yield "The user's audio is kept beside this file in audio/; run the command in that folder."


def _in_short(plan: Plan) -> str:
    said = (
        "A person conversed with the server by microphone and loudspeaker; a client sent what was heard as it came"
        if plan.microphone
        else "A client spoke the scripts to the server in real time, as a microphone would"
    )
    return (
        f"{describe_class(plan)}. {said}, in frames of {plan.frame_ms} ms, and stamped every message that was sent and "
        "received on one monotonic clock. All figures were computed afterwards from that record."
    )


def _conditions(plan: Plan, summary: Summary) -> Markup:
    methods = ", ".join(f"{name} ({plural(n, 'turn')})" for name, n in summary.conditions.speech_end_methods.items())
    limits = plan.limits
    pairs = {
        "server": plan.target,
        "date": plan.created,
        "at once": " ".join(load_lines(plan.load, summary.start_delay_ms)),
        "performed by": " ".join(share_lines(summary)),
        "devices": " ".join(device_lines(summary)),
        "dialogues": f"{summary.dialogues.measured} measured, {summary.dialogues.warmup} warm-up, "
        f"{summary.dialogues.stopped} stopped",
        "speech end known by": methods or DASH,
        "audio": f"{plan.rate_hz} Hz mono, int16, frames of {plan.frame_ms} ms",
        "user's audio": f"perturbed by {plan.scripts[0].perturb}, seed {plan.scripts[0].perturb_seed}"
        if plan.scripts[0].perturb
        else "",
        "voice": plan.voice or "the server's own choice",
        "server VAD settings": ", ".join(f"{name} {value:g}" for name, value in plan.server_vad.items()),
        "headers sent": ", ".join(plan.headers),
        "a turn is invalid when": f"this machine was more than {limits.lateness_ms:g} ms late in it",
        "time limits": f"connect {limits.connect_s:g} s, reply {limits.reply_s:g} s, silence {limits.idle_s:g} s",
        "size limit": f"{limits.bytes_per_dialogue / 2**20:g} MiB received per dialogue",
    }
    return join([tag("h3", "Conditions"), _pairs({name: text for name, text in pairs.items() if text})])


def _floor(summary: Summary) -> Markup:
    floor = {_FLOOR.get(name, name): _short_time(value) for name, value in summary.machine_floor.items()}
    return join(
        [
            tag("h3", "This machine's timing floor"),
            tag("p", "No figure can be more exact than the machine that took it.", class_="legend"),
            _pairs(floor) if floor else tag("p", "It was not taken.", class_="soft"),
        ]
    )


def _short_time(value_ms: float) -> str:
    return f"{value_ms:.3g} ms" if value_ms == 0 or abs(value_ms) >= 0.01 else f"{value_ms * 1000:.3g} µs"


def _software(plan: Plan, summary: Summary) -> Markup:
    parts = [tag("h3", "Software"), _pairs(summary.software)]
    if plan.weights:
        parts += [tag("h3", "Weights"), _pairs(plan.weights)]
    return join(parts)


def _scripts(plan: Plan) -> Iterable[Markup]:
    for script in plan.scripts:
        rows = [
            tag(
                "tr",
                tag("td", str(index), class_="num"),
                tag("td", turn.text or DASH, dir="auto"),
                tag("td", f"{turn.samples / RATE_HZ:.2f} s", class_="num"),
                tag("td", f"{(turn.last_sample + 1) / RATE_HZ:.3f} s", class_="num"),
                tag("td", start_of(turn), class_="num"),
                tag("td", tag("code", turn.audio[:12])),
            )
            for index, turn in enumerate(script.turns, 1)
        ]
        titles = ("Turn", "Text", "Length", "Speech ends at", "Starts", "Audio (hash)")
        numeric = (True, False, True, True, True, False)
        head = [tag("th", t, class_="num" if n else None) for t, n in zip(titles, numeric, strict=True)]
        table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows))
        yield tag("h3", f"Script “{script.name}”")
        if script.instructions:
            yield tag("p", "The assistant's instructions: ", tag("q", script.instructions), class_="soft")
        yield tag("div", table, class_="scroll")


def _definitions(summary: Summary) -> Markup:
    versions = summary.definitions
    shared = {f"{name}/{versions[name]}": text for name, text in _NOT_MEASURES.items() if name in versions}
    measures = {
        f"{name}/{version}": words_for(name).meaning or DASH
        for name, version in versions.items()
        if name not in _NOT_MEASURES
    }
    return tag(
        "details",
        tag("summary", "Definitions and their versions"),
        tag(
            "p",
            "docs/metrics.md has them in full. Results of different versions must not be ranked together.",
            class_="legend",
        ),
        tag("h3", "Instants of a turn"),
        _pairs(INSTANTS),
        tag("h3", "Measures"),
        _pairs({**shared, **measures}),
    )


def _pairs(pairs: Mapping[str, str]) -> Markup:
    return tag("dl", *(join([tag("dt", name), tag("dd", text)]) for name, text in pairs.items()))
