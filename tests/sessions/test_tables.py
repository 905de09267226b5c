"""Tables of name → "module:object", and plugins of other distributions."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from sessions.errors import SetupError
from sessions.tables import load

TABLE = {"join": "os.path:join", "split": "os.path:split"}


def test_a_name_is_loaded_when_it_is_used() -> None:
    import os.path

    assert load(TABLE, "join", "thing") is os.path.join


def test_an_unknown_name_lists_the_known_and_the_nearest() -> None:
    with pytest.raises(SetupError, match=r"unknown thing 'jion'\. Did you mean 'join'\? Known: join, split"):
        load(TABLE, "jion", "thing")


def test_another_distribution_adds_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[duologue.things]\nbase = os.path:basename\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.metadata.version("plugin") == "1.0"
    assert load(TABLE, "base", "thing")("/a/b") == "b"
    with pytest.raises(SetupError, match="Known: base, join, split"):
        load(TABLE, "nothing", "thing")
