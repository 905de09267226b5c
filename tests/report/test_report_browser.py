"""report.html in a browser that we did not write: nothing is complained of, lanes are drawn, play works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.report.html import render_page
from harness.report.summary import summarise_run
from harness.results.dialogue_result import DialogueResult
from harness.results.timeline import Mark, Stretch, Timeline
from sessions import audio
from sessions.clock import NS_PER_MS
from tests.support import chromium
from tests.support.run_samples import FLOOR, READY_NS, dialogue, plan, turn

RATE_HZ = 24_000
SECONDS = 20


def ms(value: float) -> int:
    """An instant, `value` ms from the recording's first sample."""
    return READY_NS + round(value * NS_PER_MS)


TIMELINE = Timeline(
    marks=[
        Mark("vad_started", ms(900)),
        Mark("vad_stopped", ms(2_200)),
        Mark("vad_committed", ms(2_210)),
        Mark("cancel", ms(7_000), 0),
        Mark("flush", ms(7_010), 0),
        Mark("gave_up", ms(15_000), 2, "time-out: nothing came"),
    ],
    stretches=[
        Stretch("user", ms(1_000), ms(2_000), 0, "speech"),
        Stretch("pause", ms(1_300), ms(1_600), 0),
        Stretch("agent", ms(2_400), ms(7_010), 0, "An answer."),
        Stretch("overlap", ms(6_900), ms(7_010), 1),
        Stretch("underrun", ms(3_000), ms(3_400), 0),
        Stretch("dropped", ms(7_010), ms(9_000), 0),
    ],
)


def record(folder: Path, one: DialogueResult, seconds: int = SECONDS) -> None:
    """The user sounds in the first half, the agent, softer, in the second."""
    lanes = np.zeros((seconds * RATE_HZ, 2), dtype=np.int16)
    tone = np.sin(2 * np.pi * 300 * np.arange(seconds * RATE_HZ // 2) / RATE_HZ)
    lanes[: len(tone), 0] = 20_000 * tone
    lanes[-len(tone) :, 1] = 8_000 * tone
    path = folder / one.recording
    path.parent.mkdir(parents=True, exist_ok=True)
    audio.write_flac(path, lanes, RATE_HZ)


def with_timeline(one: DialogueResult) -> DialogueResult:
    interrupting = msgspec.structs.replace(one.turns[1], kind="interruption")
    return msgspec.structs.replace(one, turns=[one.turns[0], interrupting, *one.turns[2:]], timeline=TIMELINE)


def three_turns(number: int) -> DialogueResult:
    failed = turn(2, None, turn_class="failed", outcome="time-out", answered="")
    return with_timeline(dialogue(number, [turn(0, 400.0), turn(1, -120.0), failed]))


def write(folder: Path, dialogues: list[DialogueResult], **options: int) -> Path:
    asked = plan()
    html = render_page(asked, summarise_run(asked, dialogues, FLOOR), dialogues, folder, **options)
    (folder / "report.html").write_text(html, encoding="utf-8")
    return folder / "report.html"


# Pixels of a timeline's canvas that are not blank, in the upper (user) and the lower (agent) half, left and right.
PAINTED = """(() => {
  const canvas = document.querySelector("#d0 canvas");
  const context = canvas.getContext("2d");
  const [w, h] = [canvas.width, canvas.height];
  const counts = { userLeft: 0, userRight: 0, agentLeft: 0, agentRight: 0 };
  context.getImageData(0, 0, w, h).data.forEach((value, k) => {
    const [x, y] = [(k >> 2) % w, Math.floor((k >> 2) / w)];
    if (k % 4 === 3 && value) counts[(y < h / 2 ? "user" : "agent") + (x < w / 2 ? "Left" : "Right")] += 1;
  });
  return counts;
})()"""
NOW_S = "Number(document.querySelector('#d0 .lanes').getAttribute('aria-valuenow'))"
DRAWN = "document.querySelectorAll('#d0 svg .{}').length"


async def test_lanes_are_drawn_and_events_are_marked(tmp_path: Path) -> None:
    one = three_turns(0)
    record(tmp_path, one)
    async with chromium.page(tmp_path / "profile") as page:
        await page.open(write(tmp_path, [one]))
        await page.run("document.getElementById('d0').scrollIntoView({ behavior: 'instant' })")
        await page.until("document.querySelector('#d0 canvas') !== null")
        painted: dict[str, int] = await page.run(PAINTED)
        assert painted["userLeft"] > 5 * painted["userRight"] > 0, "the user sounds first; silence is a line"
        assert painted["agentRight"] > 5 * painted["agentLeft"] > 0
        assert painted["userLeft"] > painted["agentRight"], "the louder lane is the higher"
        drawn = {name: await page.run(DRAWN.format(name)) for name in _MARKS}
        assert drawn == _MARKS
        widths: list[float] = await page.run(
            "['span', 'part'].map((name) => [...document.querySelectorAll('#d0 .sheet .' + name)]"
            ".filter((box) => box.closest('.sheet')).slice(0, name === 'span' ? 1 : 4)"
            ".reduce((sum, box) => sum + Number(box.getAttribute('width')), 0))"
        )
        assert widths[0] == pytest.approx(widths[1], abs=0.1), "the parts add up to voice-to-voice"
        await page.click("#d0 .events summary")
        rows: int = await page.until("document.querySelectorAll('#d0 .events tr').length")
        assert rows == len(TIMELINE.marks) + 3 * 2 + 2 * 3, "two instants of each turn, three of each reply"
        await page.click("[data-scale='800']")
        assert await page.run("document.querySelector('#d0 .sheet').offsetWidth") == 800 * SECONDS
        assert page.complaints == []


_MARKS = {
    "mark-end": 3,
    "mark-commit": 4,
    "mark-packet": 2,
    "mark-heard": 2,
    "mark-done": 2,
    "mark-vad": 2,
    "mark-cancel": 2,
    "mark-flush": 1,
    "span": 2,
    "pause": 1,
    "overlap": 1,
    "underrun": 1,
    "dropped": 1,
    "mark-kind": 1,
    "mark-fail": 1,
}


@pytest.mark.parametrize("carried", [True, False], ids=["in the page", "from the run folder"])
async def test_a_click_plays_from_there_and_keys_move(tmp_path: Path, carried: bool) -> None:
    one = three_turns(0)
    record(tmp_path, one)
    options = {} if carried else {"audio_bytes_at_most": 0}
    async with chromium.page(tmp_path / "profile") as page:
        await page.open(write(tmp_path, [one], **options))
        await page.run("document.getElementById('d0').scrollIntoView({ behavior: 'instant' })")
        await page.until("document.querySelector('#d0 .lanes svg') !== null")
        assert (await page.run("document.querySelector('#d0 a[href$=\"recording.flac\"]') === null")) is carried
        await page.click("#d0 .lanes", along=0.4)
        from_s: float = await page.run(NOW_S)
        assert from_s == pytest.approx(0.4 * SECONDS, abs=0.5)
        await page.until(f"{NOW_S} > {from_s + 0.2}")
        await page.press(" ")
        stopped_s = await _at_rest(page)
        await page.press("ArrowLeft")
        assert await page.run(NOW_S) == pytest.approx(stopped_s - 1, abs=0.02)
        await page.press("ArrowRight")
        assert await page.run(NOW_S) == pytest.approx(stopped_s, abs=0.02)
        await page.press("Home")
        assert await page.run(NOW_S) == 0
        await page.press(" ")
        await page.until(f"{NOW_S} > 0.2")
        assert page.complaints == []


async def _at_rest(page: chromium.Page) -> float:
    """Where the playhead stands once it no longer moves."""
    before: Any = None
    while (now := await page.run(f"new Promise((done) => setTimeout(() => done({NOW_S}), 150))")) != before:
        before = now
    return float(now)


async def test_two_hundred_dialogues_are_usable(tmp_path: Path) -> None:
    dialogues = [three_turns(number) for number in range(200)]
    record(tmp_path, dialogues[0], seconds=4)
    for other in dialogues[1:]:
        path = tmp_path / other.recording
        path.parent.mkdir(parents=True)
        path.hardlink_to(tmp_path / dialogues[0].recording)
    file = write(tmp_path, dialogues, audio_bytes_at_most=300_000)
    assert file.stat().st_size < 300_000 + 200 * 10_000
    async with chromium.page(tmp_path / "profile") as page:
        await page.open(file)
        assert await page.run("document.querySelectorAll('.dialogue').length") == 200
        assert await page.run("document.querySelectorAll('canvas').length") == 0, "nothing is drawn while it is folded"
        carried: int = await page.run("document.querySelectorAll('script[id^=audio]').length")
        assert 3 < carried < 200
        assert f"dialogues 1–{carried}; " in await page.run("document.getElementById('beyond').textContent")
        await page.run("location.hash = '#d150'")
        await page.until("document.querySelector('#d150 canvas') !== null")
        await page.click("#d150 .lanes", along=0.1)
        await page.until("Number(document.querySelector('#d150 .lanes').getAttribute('aria-valuenow')) > 0.6")
        await page.click("[data-fold=open]")
        await page.run("document.getElementById('d199').scrollIntoView({ behavior: 'instant' })")
        await page.until("document.querySelector('#d199 canvas') !== null")
        drawn: int = await page.run("document.querySelectorAll('canvas').length")
        assert drawn < 60, "only what is near the view is drawn"
        assert page.complaints == []
