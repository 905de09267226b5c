"""ELAN annotation files (EAF 3.0): one `.eaf` per dialogue with a tier per lane, and the recording beside it as WAV.

ELAN's own player reads WAV and no FLAC. Annotations of one tier must neither overlap nor be empty, and count whole
milliseconds: a label that would reaches to the next one, instants in the same millisecond share one annotation.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import soundfile

from harness.export.labels import Label, lanes
from harness.results.dialogue_result import DialogueResult
from sessions.clock import NS_PER_MS
from sessions.errors import BadAudio
from sessions.runs import RunFolder, write_atomic

FORMAT = "3.0"
SHORTEST_MS = 20
"""How long an instant is shown, where nothing follows sooner."""
_NOT_IN_XML = re.compile("[\ufffe\uffff]")
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"


def write(run: RunFolder, dialogues: list[DialogueResult], out: Path) -> None:
    """`d0001.eaf`, and `d0001.wav` where there is a recording, into the folder `out`."""
    for dialogue in dialogues:
        media = f"{dialogue.id}.wav" if dialogue.recording else ""
        if media:
            write_atomic(out / media, _wav(run.path / dialogue.recording))
        write_atomic(out / f"{dialogue.id}.eaf", document(dialogue, media))


def document(dialogue: DialogueResult, media: str) -> bytes:
    """The annotation file. media: the sound file's name beside it, "" for none."""
    ElementTree.register_namespace("xsi", _XSI)
    root = ElementTree.Element(
        "ANNOTATION_DOCUMENT",
        {
            "AUTHOR": "duologue",
            "DATE": dialogue.wall_time,
            "FORMAT": FORMAT,
            "VERSION": FORMAT,
            f"{{{_XSI}}}noNamespaceSchemaLocation": _SCHEMA,
        },
    )
    header = ElementTree.SubElement(root, "HEADER", {"MEDIA_FILE": "", "TIME_UNITS": "milliseconds"})
    if media:
        place = {"MEDIA_URL": f"./{media}", "RELATIVE_MEDIA_URL": f"./{media}", "MIME_TYPE": "audio/x-wav"}
        ElementTree.SubElement(header, "MEDIA_DESCRIPTOR", place)
    tiers = {name: list(_apart(labels)) for name, labels in lanes(dialogue).items()}
    count = sum(len(labels) for labels in tiers.values())
    last = ElementTree.SubElement(header, "PROPERTY", {"NAME": "lastUsedAnnotationId"})
    last.text = str(count)
    order = ElementTree.SubElement(root, "TIME_ORDER")
    number = 0
    for name, labels in tiers.items():
        tier = ElementTree.SubElement(root, "TIER", {"TIER_ID": name, "LINGUISTIC_TYPE_REF": "lane"})
        for start_ms, end_ms, text in labels:
            number += 1
            _annotate(order, tier, number, (start_ms, end_ms), text)
    order[:] = sorted(order, key=lambda slot: int(slot.get("TIME_VALUE", "0")))
    kind = {"LINGUISTIC_TYPE_ID": "lane", "TIME_ALIGNABLE": "true", "GRAPHIC_REFERENCES": "false"}
    ElementTree.SubElement(root, "LINGUISTIC_TYPE", kind)
    ElementTree.indent(root)
    made: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return made


def _annotate(
    order: ElementTree.Element, tier: ElementTree.Element, number: int, span_ms: tuple[int, int], text: str
) -> None:
    slots = [f"ts{2 * number - 1}", f"ts{2 * number}"]
    for slot, t_ms in zip(slots, span_ms, strict=True):
        ElementTree.SubElement(order, "TIME_SLOT", {"TIME_SLOT_ID": slot, "TIME_VALUE": str(t_ms)})
    alignable = ElementTree.SubElement(
        ElementTree.SubElement(tier, "ANNOTATION"),
        "ALIGNABLE_ANNOTATION",
        {"ANNOTATION_ID": f"a{number}", "TIME_SLOT_REF1": slots[0], "TIME_SLOT_REF2": slots[1]},
    )
    ElementTree.SubElement(alignable, "ANNOTATION_VALUE").text = _NOT_IN_XML.sub("\ufffd", text)


def _apart(labels: Sequence[Label]) -> Iterator[tuple[int, int, str]]:
    """(start, end, text) in ms, in order, none empty and none over another."""
    joined: list[tuple[int, int, str]] = []
    for label in labels:
        start_ms, end_ms = round(label.start_ns / NS_PER_MS), round(label.end_ns / NS_PER_MS)
        if joined and joined[-1][0] == start_ms:
            _, before_ms, text = joined[-1]
            joined[-1] = (start_ms, max(before_ms, end_ms), f"{text}; {label.text}")
        else:
            joined.append((start_ms, end_ms, label.text))
    if not joined:
        return
    following = [*(start_ms for start_ms, _, _ in joined[1:]), None]
    for (start_ms, end_ms, text), next_ms in zip(joined, following, strict=True):
        wanted_ms = max(end_ms, start_ms + (SHORTEST_MS if end_ms == start_ms else 0))
        yield start_ms, wanted_ms if next_ms is None else min(wanted_ms, next_ms), text


def _wav(path: Path) -> bytes:
    try:
        samples, rate_hz = soundfile.read(os.fsencode(path), dtype="int16", always_2d=True)
    except soundfile.LibsndfileError as error:
        why = error.error_string.strip().rstrip(".")
        raise BadAudio(f"cannot use {path}: {why}", "Make it again: duologue rescore RUN") from error
    out = io.BytesIO()
    soundfile.write(out, samples, rate_hz, format="WAV", subtype="PCM_16")
    return out.getvalue()
