"""A run for other programs: what is written is read back by readers that we did not write, and says the same."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pyarrow.parquet as pq
import pytest
import soundfile
from click.testing import CliRunner

from harness.cli.export import FORMATS as OFFERED
from harness.cli.export import export
from harness.export import tables
from harness.export.elan import document
from harness.export.formats import FORMATS, export_run
from harness.export.labels import lanes
from harness.export.latex import escape, table
from harness.report.summary import summarise_run
from harness.results.dialogue_result import DialogueResult
from harness.results.finish import finish_dialogues, finish_run
from harness.results.timeline import Mark, Stretch, Timeline
from metrics.result import PauseCase
from sessions.clock import NS_PER_MS
from sessions.errors import MissingExtra, SetupError
from sessions.runs import Plan, RunFolder
from tests.report.test_check import recorded
from tests.support.run_samples import FLOOR, READY_NS, dialogue, plan, turn

HOSTILE = "a\tb\nc <&> \"' \x00 \ud800 \ufffe =1+1 50% _x_ #1 {\\} ~^"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    made = recorded(tmp_path_factory.mktemp("exported"), "server_vad")
    finish_run(made)
    return made


def at(ms: float) -> int:
    return READY_NS + round(ms * NS_PER_MS)


def hostile() -> DialogueResult:
    """Instants in one millisecond, stretches that overlap, text that every format must defuse."""
    timeline = Timeline(
        marks=[Mark("flush", at(2_000.2), 0), Mark("gave_up", at(2_000.4), 0, HOSTILE)],
        stretches=[
            Stretch("user", at(1_000), at(1_400), 0, "speech"),
            Stretch("user", at(1_700), at(2_000), 0, "speech"),
            Stretch("agent", at(1_900), at(2_500), 0, HOSTILE),
            Stretch("pause", at(1_400), at(1_700), 0),
            Stretch("dropped", at(2_000), at(4_000), 0),
            Stretch("dropped", at(3_000), at(3_500), 0),
        ],
    )
    bad = msgspec.structs.replace(
        turn(0, 400.0, answered=HOSTILE, flags=(HOSTILE, "b")), pauses=[PauseCase(300.0, True)], kind="overlap"
    )
    one = dialogue(0, [bad, turn(1, None, turn_class="failed", outcome=HOSTILE, detail=HOSTILE, answered="")])
    return msgspec.structs.replace(one, timeline=timeline, said=[HOSTILE, HOSTILE], script=HOSTILE, recording="")


def test_the_command_offers_what_there_is(run: RunFolder, tmp_path: Path) -> None:
    assert tuple(FORMATS) == OFFERED
    for name in OFFERED:
        ran = CliRunner().invoke(export, [str(run.path), "--format", name])
        assert ran.exit_code == 0, ran.exception
        assert Path(ran.output.strip()).exists()
        assert Path(ran.output.strip()).is_relative_to(run.path / "export")
    out = tmp_path / "deep" / "turns.csv"
    assert CliRunner().invoke(export, [str(run.path), "--format", "csv", "--out", str(out)]).output == f"{out}\n"
    assert out.read_bytes() == (run.path / "turns.csv").read_bytes()


def test_places_that_cannot_be_are_told(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"is a file, and labels need a folder. Name a folder"):
        export_run(run, "elan", tmp_path / "file")
    with pytest.raises(SetupError, match=r"is a folder. Name a file in it: --out .*/table\.tex"):
        export_run(run, "latex", tmp_path)
    with pytest.raises(SetupError, match="no finished dialogue"):
        export_run(RunFolder.create(tmp_path / "empty", plan()), "csv")


def test_parquet_says_the_same_as_the_csv_with_types(run: RunFolder, tmp_path: Path) -> None:
    read = pq.read_table(export_run(run, "parquet", tmp_path / "turns.parquet"))
    with (run.path / "turns.csv").open(encoding="utf-8", newline="") as file:
        expected = list(csv.DictReader(file))
    assert read.column_names == list(expected[0])
    assert read.num_rows == len(expected) == 2
    for row, texts in zip(read.to_pylist(), expected, strict=True):
        for name in ("voice_to_voice_ms", "at_first_packet_ms", "gap_max_ms", "responded"):
            assert row[name] == (float(texts[name]) if texts[name] else None), name
        assert (row["turn"], row["warmup"], row["class"]) == (int(texts["turn"]), False, texts["class"])
    assert msgspec.json.decode(read.schema.metadata[b"duologue.plan"], type=Plan) == run.plan


def test_parquet_keeps_lists_and_says_null_where_there_is_nothing(tmp_path: Path) -> None:
    made = RunFolder.create(tmp_path / "run", plan())
    tables.write_parquet(made, [hostile()], tmp_path / "x.parquet")
    first, second = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert first["pauses_ms_cut"] == [{"pause_ms": 300.0, "was_cut": True}]
    assert len(first["flags"]) == 2 and first["kind"] == "overlap"
    assert second["voice_to_voice_ms"] is None and second["flags"] == []
    assert first["said"].startswith("a\tb\nc <&>"), "no apostrophe: nothing runs a formula here"


def test_without_pyarrow_one_line_says_what_to_install(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'duologue\[export\]'"):
        export_run(run, "parquet")


LABEL = re.compile(r"(\d+\.\d{6})\t(\d+\.\d{6})\t([^\t\n\x00-\x1f]*)\n")


def test_audacity_labels_lie_where_the_instants_are(run: RunFolder) -> None:
    folder = export_run(run, "audacity")
    assert {"d0001-user.txt", "d0001-agent.txt", "d0001-events.txt", "d0001-latencies.txt"} <= {
        file.name for file in folder.iterdir()
    }
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8")
        assert "".join(found[0] for found in LABEL.finditer(text)) == text, "every line is a label"
    (one,) = finish_dialogues(run)
    events = {text: float(start) for start, _, text in LABEL.findall((folder / "d0001-events.txt").read_text())}
    assert one.ready_ns is not None
    for result in one.turns:
        for name, label in (("speech_end", "speech end"), ("first_audible", "first audible")):
            expected_s = (result.instants_ns[name] - one.ready_ns) / 1e9
            assert events[f"turn {result.turn + 1}: {label}"] == pytest.approx(expected_s, abs=1e-6)


def test_hostile_text_is_one_label() -> None:
    for labels in lanes(hostile()).values():
        for label in labels:
            assert not set("\t\n\x00\ud800") & set(label.text)
    made = lanes(hostile())
    assert [label.text for label in made["user"]][1] == "…", "the words stand once"
    assert list(made) == ["user", "agent", "events", "latencies", "pauses", "never heard"]


def tiers_of(root: ElementTree.Element) -> dict[str, list[tuple[int, int, str]]]:
    slots = {slot.attrib["TIME_SLOT_ID"]: int(slot.attrib["TIME_VALUE"]) for slot in root.iter("TIME_SLOT")}
    return {
        tier.attrib["TIER_ID"]: [
            (
                slots[one.attrib["TIME_SLOT_REF1"]],
                slots[one.attrib["TIME_SLOT_REF2"]],
                one.findtext("ANNOTATION_VALUE") or "",
            )
            for one in tier.iter("ALIGNABLE_ANNOTATION")
        ]
        for tier in root.iter("TIER")
    }


def test_elan_files_are_valid_and_have_their_sound(run: RunFolder) -> None:
    folder = export_run(run, "elan")
    root = ElementTree.parse(folder / "d0001.eaf").getroot()
    assert root.tag == "ANNOTATION_DOCUMENT" and root.attrib["FORMAT"] == "3.0"
    header = root.find("HEADER")
    assert header is not None and header.attrib["TIME_UNITS"] == "milliseconds"
    media = root.find("HEADER/MEDIA_DESCRIPTOR")
    assert media is not None
    heard, rate_hz = soundfile.read(folder / media.attrib["RELATIVE_MEDIA_URL"], dtype="int16")
    same, same_hz = soundfile.read(run.dialogue("d0001") / "recording.flac", dtype="int16")
    assert rate_hz == same_hz and (heard == same).all()
    tiers = tiers_of(root)
    assert list(tiers)[:4] == ["user", "agent", "events", "latencies"]
    assert len(tiers["user"]) == len(tiers["agent"]) == len(tiers["latencies"]) == 2
    types = {one.attrib["LINGUISTIC_TYPE_ID"] for one in root.iter("LINGUISTIC_TYPE")}
    assert {tier.attrib["LINGUISTIC_TYPE_REF"] for tier in root.iter("TIER")} <= types


def test_annotations_of_a_tier_neither_overlap_nor_are_empty() -> None:
    root = ElementTree.fromstring(document(hostile(), ""))
    times = [int(slot.attrib["TIME_VALUE"]) for slot in root.iter("TIME_SLOT")]
    assert times == sorted(times)
    ids = [one.attrib["ANNOTATION_ID"] for one in root.iter("ALIGNABLE_ANNOTATION")]
    assert len(ids) == len(set(ids)) == int(root.findtext("HEADER/PROPERTY") or "")
    tiers = tiers_of(root)
    for spans in tiers.values():
        assert all(start < end for start, end, _ in spans)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    joined = next(text for start, _, text in tiers["events"] if start == 2_000)
    assert "speech end" in joined and "dropped unheard" in joined and "gave up waiting" in joined
    assert "<&>" in next(text for _, _, text in tiers["agent"])


def test_latex_escapes_every_character_that_means_something() -> None:
    assert escape("50% & $5 #1 a_b {x} ~^ \\ <|>") == (
        r"50\% \& \$5 \#1 a\_b \{x\} \textasciitilde{}\textasciicircum{} "
        r"\textbackslash{} \textless{}\textbar{}\textgreater{}"
    )
    assert escape("−3 – 4\nx\x00") == "$-$3 -- 4 x\ufffd"


def test_the_latex_table_holds_the_figures_and_nothing_loose() -> None:
    dialogues = [dialogue(number, [turn(0, 410.0), turn(1, 390.0)]) for number in range(3)]
    asked = msgspec.structs.replace(plan(2), target="wss://host/v1?model=a_b&c=50%")
    text = table(summarise_run(asked, dialogues, FLOOR))
    assert r"wss://host/v1?model=a\_b\&c=50\%" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("voice-to-voice"))
    assert [cell.strip() for cell in row.removesuffix(r"\\").split("&")] == [
        "voice-to-voice (ms)",
        "400",
        "--",
        "--",
        "390--410",
        "6",
    ]
    body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    for line in body.strip().splitlines():
        assert len(re.findall(r"(?<!\\)&", line)) == 5 and line.endswith(r"\\")
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    assert not re.search(r"(?<!\\)[#_]", text)
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
