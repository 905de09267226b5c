"""report.html: well-formed, self-contained, deaf to hostile text, and right in its figures."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shlex
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from harness.cli.report import report
from harness.report.html import build_report, render_page
from harness.report.html.blob import data_script, page_data
from harness.report.html.figures import DOTS_AT_MOST, Curve, Dots, axis_for, cumulative, strip
from harness.report.html.plan_section import command_line
from harness.report.html.sound import envelope
from harness.report.summary import summarise_run
from harness.results.dialogue_result import DialogueResult
from harness.results.timeline import Mark, Stretch, Timeline
from sessions import audio
from sessions.clock import NS_PER_MS
from sessions.errors import SetupError
from sessions.runs import Limits, Plan, RunFolder
from tests.support.run_samples import FLOOR, READY_NS, dialogue, plan, turn

RATE_HZ = 24_000
VOID = {"meta", "br", "link", "img", "input", "hr", "area", "base", "col", "embed", "source", "track", "wbr"}
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">"\'><!-- ]]> &amp; \x00\x1b[2J \ud800 \u2028'


@dataclass
class Page(HTMLParser):
    """Every element with its attributes; fails on a tag that closes nothing or is never closed."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _last: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute stands twice in <{tag}>"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self._last = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag
        self._last = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._last] = self.texts.get(self._last, "") + data

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.texts["data"])
        return found


def parse(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert not page._open, f"never closed: {page._open}"
    return page


def record(folder: Path, one: DialogueResult, *, seconds: float = 3.0) -> None:
    """A recording with a user tone in its first second and a softer agent tone in the last."""
    lanes = np.zeros((round(seconds * RATE_HZ), 2), dtype=np.int16)
    tone = np.sin(2 * np.pi * 440 * np.arange(RATE_HZ) / RATE_HZ)
    lanes[:RATE_HZ, 0] = 32767 * tone
    lanes[-RATE_HZ:, 1] = 8192 * tone
    path = folder / one.recording
    path.parent.mkdir(parents=True, exist_ok=True)
    audio.write_flac(path, lanes, RATE_HZ)


def render(folder: Path, dialogues: list[DialogueResult], asked: Plan | None = None, **options: int) -> str:
    asked = asked or plan()
    return render_page(asked, summarise_run(asked, dialogues, FLOOR), dialogues, folder, **options)


DIALOGUES = [
    dialogue(0, [turn(0, 900.0)], warmup=True),
    dialogue(1, [turn(0, 500.0), turn(1, 410.25), turn(2, None, turn_class="failed", outcome="time-out", answered="")]),
    dialogue(2, [turn(0, -120.0), turn(1, 390.0, turn_class="invalid", detail="late"), turn(2, 1_843.0)]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for one in DIALOGUES:
        record(tmp_path, one)
    return tmp_path


def test_the_page_is_well_formed_and_has_its_parts(folder: Path) -> None:
    page = parse(render(folder, DIALOGUES))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {"latency", "figures", "turns", "dialogues", "how", "command", "data"} <= set(ids)
    links = {attributes["href"] for attributes in page.named("a")}
    assert {f"#{name}" for name in ("latency", "figures", "turns", "dialogues", "how")} == links


def test_nothing_is_loaded_from_anywhere(folder: Path) -> None:
    html = render(folder, DIALOGUES)
    page = parse(html)
    for tag, attributes in page.elements:
        assert "src" not in attributes and "srcset" not in attributes and "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert (attributes.get("href") or "#").startswith("#")
    assert not page.named("link") + page.named("iframe") + page.named("base")
    style = page.texts["style"]
    assert "@import" not in style and "url(" not in style
    assert "http" not in html.split("</header>")[0].replace("http-equiv", "")


def test_only_our_style_and_script_may_run(folder: Path) -> None:
    html = render(folder, DIALOGUES)
    page = parse(html)
    (policy,) = [meta["content"] or "" for meta in page.named("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy and "http" not in policy
    script = html[html.rindex("<script>") + 8 : html.rindex("</script>")]
    for text in (page.texts["style"], script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_text_stays_text(folder: Path) -> None:
    bad = turn(0, 500.0, answered=HOSTILE, flags=(HOSTILE,), detail=HOSTILE)
    worse = turn(1, None, turn_class="failed", outcome=HOSTILE, detail=HOSTILE, answered=HOSTILE)
    one = msgspec.structs.replace(
        dialogue(1, [bad, worse]), said=[HOSTILE] * 2, understood=[HOSTILE] * 2, faults=[HOSTILE], script=HOSTILE
    )
    text = HOSTILE.replace("\ud800", "")  # what a plan file can hold
    script = msgspec.structs.replace(plan().scripts[0], name=text, instructions=text)
    asked = msgspec.structs.replace(plan(), target=text, voice=text, scripts=[script], software={text: text})
    harmless, hostile = parse(render(folder, [dialogue(1, [turn(0), turn(1)])])), parse(render(folder, [one], asked))
    for name in ("script", "img"):
        assert len(hostile.named(name)) == len(harmless.named(name))
    assert not [name for _, attributes in hostile.elements for name in attributes if name.startswith("on")]
    turns = hostile.data["dialogues"][0]["turns"]
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\ud800", "\ufffd")
    assert turns[0]["answered"] == turns[0]["said"] == turns[1]["outcome"] == turns[0]["flags"][0] == shown


def test_the_data_element_cannot_be_closed_from_inside() -> None:
    element = data_script({"text": "</script><!-- & \u2028"})
    inner = element[element.index(">") + 1 : element.rindex("</script>")]
    assert not set("<>&\u2028") & set(inner)
    assert json.loads(inner) == {"text": "</script><!-- & \u2028"}


def test_the_script_gets_exact_instants_and_reasons(folder: Path) -> None:
    data = page_data(DIALOGUES, folder)
    second = data["dialogues"][1]["turns"][1]
    at = dict(zip(data["instants"], second["at"], strict=True))
    assert (at["speech_end"], at["first_packet"], at["first_audible"]) == (8_000.0, 8_330.25, 8_410.25)
    assert at["first_text"] is None
    values = dict(zip((measure["name"] for measure in data["measures"]), second["m"], strict=True))
    assert values["voice_to_voice_ms"] == 410.25
    assert data["reasons"][int(values["first_text_ms"])] == "the reply has no text"
    assert data["reasons"][int(values["gap_p50_ms"])] == "error: ValueError: hand-made"
    assert [one["warmup"] for one in data["dialogues"]] == [True, False, False]
    assert data["dialogues"][1]["duration_ms"] == 3_000.0


def test_each_recording_is_in_the_page_once_and_plays(folder: Path) -> None:
    page = parse(render(folder, DIALOGUES))
    holders = [one for one in page.named("script") if (one.get("id") or "").startswith("audio-")]
    assert [one["id"] for one in holders] == ["audio-0", "audio-1", "audio-2"]
    heard, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(page.texts["audio-1"])), always_2d=True)
    assert rate_hz == RATE_HZ
    assert abs(len(heard) - 3 * RATE_HZ) < RATE_HZ / 50
    assert heard[:RATE_HZ, 0].std() > 20 * heard[:RATE_HZ, 1].std(), "the user is on the left"
    assert heard[-RATE_HZ:, 1].std() > 20 * heard[-RATE_HZ:, 0].std(), "the agent is on the right"


def carried(page: Page) -> list[str]:
    return [one["id"] or "" for one in page.named("script") if (one.get("id") or "").startswith("audio-")]


def test_above_the_budget_the_page_plays_from_the_run_folder(folder: Path) -> None:
    html = render(folder, DIALOGUES, audio_bytes_at_most=1_000)
    page = parse(html)
    assert carried(page) == []
    assert page.data["dialogues"][1]["recording"] == "dialogues/d0002/recording.flac"
    assert "The recordings are too long for this file; they play from the run folder" in html


def test_what_fits_is_carried_in_order_and_warm_up_last(folder: Path) -> None:
    size = len(parse(render(folder, DIALOGUES)).texts["audio-1"])
    html = render(folder, DIALOGUES, audio_bytes_at_most=round(2.5 * size))
    assert carried(parse(html)) == ["audio-1", "audio-2"]
    assert "This file carries the sound of dialogues 2–3; the recordings of dialogue 1 play from the run folder" in html
    assert "This file needs no network. " in html
    whole = render(folder, DIALOGUES, audio_bytes_at_most=4 * size)
    assert "carries the sound" not in whole and "This file needs no network and no other file." in whole


def test_the_parts_of_a_latency_and_the_timeline_reach_the_script(folder: Path) -> None:
    marks = [Mark("flush", READY_NS + 2_500 * NS_PER_MS, 0), Mark("gave_up", READY_NS + 9 * NS_PER_MS, 2, HOSTILE)]
    spans = [Stretch("overlap", READY_NS + 1_000_500_000, READY_NS + 1_250_000_000, 1)]
    shown = msgspec.structs.replace(DIALOGUES[1], timeline=Timeline(marks, spans))
    row = page_data([shown], folder)["dialogues"][0]
    assert row["id"] == "d0002"
    assert row["marks"][0] == ["flush", 2_500.0, 0, ""]
    assert row["marks"][1][:3] == ["gave_up", 9.0, 2] and "\x00" not in row["marks"][1][3]
    assert row["stretches"] == [["overlap", 1_000.5, 1_250.0, 1]]
    assert row["turns"][0]["parts"] == [["end_of_turn", 0.3], ["first_packet", 419.7], ["silence_padding", 80.0]]
    assert row["turns"][2]["parts"] == []


def test_a_missing_or_broken_recording_leaves_the_rest(folder: Path) -> None:
    (folder / DIALOGUES[1].recording).unlink()
    (folder / DIALOGUES[2].recording).write_bytes(b"no flac")
    lost = msgspec.structs.replace(
        dialogue(3, [msgspec.structs.replace(turn(0, None, turn_class="failed", outcome="refused"), instants_ns={})]),
        ready_ns=None,
        recording="",
    )
    rows = parse(render(folder, [*DIALOGUES, lost])).data["dialogues"]
    assert [bool(row["recording"]) for row in rows] == [True, False, False, False]
    assert rows[1]["peaks"] is None
    assert rows[1]["duration_ms"] == 20_000.0, "the timeline reaches as far as the dialogue"
    assert rows[3]["duration_ms"] == 0


def test_envelopes_follow_both_lanes(folder: Path) -> None:
    shape = envelope(folder / DIALOGUES[0].recording)
    assert shape.bin_ms == 10.0
    assert len(shape.user) == len(shape.agent) == 300
    assert shape.user[5] == 255 and shape.user[150] == 0
    assert shape.agent[250] == pytest.approx(255 * 0.5, abs=1), "√(1/4) of full scale"


def test_the_verdict_says_it_in_words_and_figures(folder: Path) -> None:
    html = render(folder, DIALOGUES)
    assert "half of the replies were audible within 455 ms; the slowest took 1843 ms." in html
    assert "1 turn failed (1 time-out)" in html
    assert "1 turn invalid: this machine was more than 20 ms late" in html
    assert "1 warm-up dialogue came first; in no figure." in html
    assert "class A (session with explicit end of turn)" in html


def test_nothing_completed_still_makes_a_page(tmp_path: Path) -> None:
    failed = dialogue(0, [turn(0, None, turn_class="failed", outcome="refused", detail="no such model")])
    html = render(tmp_path, [failed])
    parse(html)
    assert "there is nothing to draw" in html
    assert "1 refused" in html
    parse(render(tmp_path, []))


def test_the_plan_is_there_in_full(folder: Path) -> None:
    page = parse(render(folder, DIALOGUES))
    shown = next(text for name, text in page.texts.items() if name == "pre" and '"definitions"' in text)
    assert msgspec.json.decode(shown[shown.index("{") :], type=Plan) == plan()


def test_the_command_asks_for_the_same_again() -> None:
    asked = msgspec.structs.replace(
        plan(),
        target="wss://host/v1/realtime?model=a b&x=***",
        turn_detection="server_vad",
        server_vad={"silence_duration_ms": 300.0, "threshold": 0.5},
        headers=["X-Tenant"],
        api_key_env="KEY",
        repeat=3,
        warmup=1,
        limits=Limits(lateness_ms=12.5),
        scripts=[msgspec.structs.replace(plan().scripts[0], name="facts")],
    )
    words = shlex.split(command_line(asked).replace("\\\n", " "))
    assert words[:5] == ["duologue", "measure", asked.target, "--script", "facts"]
    rest = words[5:]
    assert list(zip(rest[::2], rest[1::2], strict=True)) == [
        ("--repeat", "3"),
        ("--warmup", "1"),
        ("--turn-detection", "server_vad"),
        ("--vad", "silence_duration_ms=300"),
        ("--vad", "threshold=0.5"),
        ("--header", "X-Tenant: …"),
        ("--api-key-env", "KEY"),
        ("--limit-lateness", "12.5"),
    ]


def test_files_of_the_users_own_are_named_by_their_place_in_the_run() -> None:
    asked = msgspec.structs.replace(plan(2), scripts=[msgspec.structs.replace(plan(2).scripts[0], instructions="")])
    words = shlex.split(command_line(asked).replace("\\\n", " "))
    assert words[3:7] == ["--audio", f"audio/{0:064x}.flac", "--audio", f"audio/{1:064x}.flac"]


def _dots(values: list[float], p95: float | None = None) -> Dots:
    return Dots("x", tuple(values), tuple(k == 0 for k in range(len(values))), sorted(values)[len(values) // 2], p95)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([300.0, 412.0], 0, 500), ([-143.0, 700.0], -200, 800), ([0.4, 0.9], 0, 1), ([0.0], 0, 0.2), ([-5.0], -5, 1)],
)
def test_the_scale_holds_every_value_and_zero(values: list[float], low: float, high: float) -> None:
    axis = axis_for([_dots(values)])
    assert axis.low <= min(0, *values) and axis.high >= max(values)
    assert axis.low < axis.high and 0.0 in axis.ticks
    assert [axis.low, axis.high] == pytest.approx([low, high])
    assert all(0 <= axis.percent(value) <= 100 for value in values)


def test_a_row_draws_each_turn_or_the_shares_of_many() -> None:
    few = _dots([100.0, 200.0, 300.0], p95=290.0)
    axis = axis_for([few])
    drawn = strip(few, axis)
    assert drawn.count("<circle") == 3
    assert drawn.count('class="dot first"') == 1
    assert f'x1="{axis.percent(290.0)}%"' in drawn and f'x1="{axis.percent(200.0)}%"' in drawn
    many = _dots([float(k) for k in range(DOTS_AT_MOST + 1)])
    assert "<circle" not in strip(many, axis_for([many])) and "<rect" in strip(many, axis_for([many]))
    parse(drawn)


def test_a_cumulative_curve_steps_to_one_hundred_percent() -> None:
    axis = axis_for([_dots([100.0, 200.0])])
    drawn = cumulative([Curve("voice", "voice-to-voice", (200.0, 100.0))], axis)
    points = drawn.split('points="')[1].split('"')[0].split()
    assert points == ["0,100", "50,100", "50,50", "100,50", "100,0", "100,0"]
    parse(drawn)


def test_build_report_puts_one_file_into_the_run(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", plan())
    summary = summarise_run(plan(), DIALOGUES, FLOOR)
    path = build_report(run, plan(), summary, DIALOGUES)
    assert path == run.path / "report.html"
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert build_report(run, plan(), summary, DIALOGUES) == path
    assert {file.name for file in run.path.iterdir()} == {"plan.json", "dialogues", "audio", "report.html"}


def test_the_command_needs_a_finished_dialogue(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", plan())
    ran = CliRunner().invoke(report, [str(tmp_path / "run")])
    assert isinstance(ran.exception, SetupError)
    assert "no finished dialogue" in str(ran.exception) and "--resume" in str(ran.exception)
    ran = CliRunner().invoke(report, [str(tmp_path)])
    assert isinstance(ran.exception, SetupError) and "not a run folder" in str(ran.exception)
