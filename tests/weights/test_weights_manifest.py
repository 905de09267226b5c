"""The weights table itself: every pin is complete and consistent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sessions.weights import MANIFEST, SETS, Weight

HEX_64 = re.compile(r"[0-9a-f]{64}")
HEX_40 = re.compile(r"[0-9a-f]{40}")
ROOT = Path(__file__).parents[2]
each = pytest.mark.parametrize("weight", MANIFEST.values(), ids=MANIFEST.keys())


@each
def test_files_are_pinned(weight: Weight) -> None:
    assert weight.files
    assert len({file.name for file in weight.files}) == len(weight.files)
    for file in weight.files:
        assert "/" not in file.name
        assert HEX_64.fullmatch(file.sha256)
        assert file.size_bytes > 0
        assert file.upstream_path


@each
def test_carriers_are_pinned_and_make_up_the_file(weight: Weight) -> None:
    for file in weight.files:
        if not file.pieces:
            assert weight.url(file, "https://hub.example"), "neither a package nor an address has it"
            continue
        assert sum(piece.size_bytes for piece in file.pieces) == file.size_bytes
        for piece in file.pieces:
            assert piece.member
            assert HEX_64.fullmatch(piece.sha256)
            assert HEX_64.fullmatch(piece.package.sha256)
            assert piece.package.size_bytes > 0
            assert piece.package.version in piece.package.spec
        if len(file.pieces) == 1:
            assert file.pieces[0].sha256 == file.sha256


@each
def test_licence_purpose_and_upstream_are_named(weight: Weight) -> None:
    assert weight.licence
    assert weight.purpose
    assert weight.upstream.repository.count("/") == 1
    if weight.upstream.host == "hub":
        assert HEX_40.fullmatch(weight.upstream.revision)
    for file in weight.files:
        address = weight.address(file, "https://hub.example/")
        assert address.startswith("https://") or file.pieces[0].package.spec in address
        assert "hub.example//" not in address


@each
def test_notice_names_the_entry_with_its_licence_and_upstream(weight: Weight) -> None:
    notice = (ROOT / "NOTICE").read_text()
    paragraph = next(part for part in notice.split("\n\n") if part.startswith(f"{weight.name}\n"))
    assert weight.licence in paragraph
    assert weight.upstream.repository in paragraph


def test_one_package_has_one_pin() -> None:
    packages = {piece.package for weight in MANIFEST.values() for file in weight.files for piece in file.pieces}
    assert len({package.spec for package in packages}) == len(packages)


def test_sets_name_entries() -> None:
    assert set(SETS) == {"embedded", "scripts", "score", "all"}
    for names in SETS.values():
        assert set(names) <= set(MANIFEST)
    assert {MANIFEST[name].role for name in SETS["embedded"]} == {"asr", "llm", "tts", "vad"}


def test_each_entry_has_its_own_variable() -> None:
    assert MANIFEST["whisper-tiny.en"].variable == "DUOLOGUE_WEIGHTS_WHISPER_TINY_EN"
    assert len({weight.variable for weight in MANIFEST.values()}) == len(MANIFEST)
