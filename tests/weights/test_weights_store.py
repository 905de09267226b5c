"""Where weights are looked for, in which order, and that only the pinned bytes are used."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

from sessions.errors import MissingWeights, SetupError
from sessions.weights import MANIFEST, Store, Weight
from sessions.weights import store as store_module
from sessions.weights.entry import Installed
from sessions.weights.store import cache_folder
from tests.support.weights_fakes import CONFIG, MODEL, REVISION, make_store, put, tiny, weight, whole

WRONG = MODEL[::-1]


def put_all(folder: Path, model: bytes = MODEL) -> Path:
    return put(folder, model_bin=model, config_json=CONFIG)


def snapshot(home: Path, revision: str = REVISION) -> Path:
    return home / "hf" / "hub" / "models--someone--tiny-model" / "snapshots" / revision


def install(monkeypatch: pytest.MonkeyPatch, site: Path, model: bytes = MODEL) -> Weight:
    """An installed distribution that carries the files, and breaks whoever imports it."""
    put_all(site / "tiny_package" / "assets", model)
    (site / "tiny_package" / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    info = site / "tiny_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-package\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(site))
    files = tiny().files
    return weight(*files, installed=Installed("tiny-package", "tiny_package/assets"))


def test_places_are_tried_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = install(monkeypatch, tmp_path / "site")
    named, home = put_all(tmp_path / "named"), tmp_path / "home"
    put_all(snapshot(home))
    put_all(home / "weights" / "tiny")
    store = make_store(home, entry)
    environ = {**store.environ, "DUOLOGUE_WEIGHTS_TINY": str(named)}
    given = put_all(tmp_path / "given")

    assert Store(store.manifest, environ).found("tiny", given=given).path == given
    from_variable = Store(store.manifest, environ).found("tiny")
    assert (from_variable.place, from_variable.path) == ("given", named)
    assert store.found("tiny").place == "cache"
    (home / "weights" / "tiny" / "model.bin").unlink()
    installed = store.found("tiny")
    assert (installed.place, installed.path) == ("package", tmp_path / "site" / "tiny_package" / "assets")
    (installed.path / "model.bin").unlink()
    assert store.found("tiny").place == "hub cache"
    assert store.folder("tiny") == snapshot(home)


def test_found_tells_the_hashes(tmp_path: Path) -> None:
    store = make_store(tmp_path, tiny())
    put_all(tmp_path / "weights" / "tiny")
    assert store.found("tiny").sha256s == {file.name: file.sha256 for file in tiny().files}


@pytest.mark.parametrize("model", [WRONG, MODEL[:-1], b""], ids=["other bytes", "cut short", "empty"])
def test_a_cached_file_with_another_hash_is_refused(tmp_path: Path, model: bytes) -> None:
    store = make_store(tmp_path, tiny())
    put_all(tmp_path / "weights" / "tiny", model)
    with pytest.raises(MissingWeights) as caught:
        store.folder("tiny")
    message = str(caught.value)
    assert "model.bin" in message
    assert f"damaged in {tmp_path / 'weights' / 'tiny'}" in message
    assert message.endswith("Run: duologue weights fetch tiny")
    assert [file.name for file in store.absent_files("tiny")] == ["model.bin"]


def test_a_package_of_another_version_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = install(monkeypatch, tmp_path / "site", WRONG)
    store = make_store(tmp_path / "home", entry)
    assert store.present("tiny") is None
    put_all(snapshot(tmp_path / "home"))
    assert store.found("tiny").place == "hub cache"


def test_a_hub_snapshot_of_another_revision_counts_if_its_bytes_fit(tmp_path: Path) -> None:
    store = make_store(tmp_path, tiny())
    put_all(snapshot(tmp_path, "a" * 40), WRONG)
    assert store.present("tiny") is None
    put_all(snapshot(tmp_path, "b" * 40))
    assert store.folder("tiny") == snapshot(tmp_path, "b" * 40)


def test_a_hub_snapshot_with_folders_is_found(tmp_path: Path) -> None:
    store = make_store(tmp_path, weight(whole("model.bin", MODEL, upstream_path="voices/model.bin")))
    put(snapshot(tmp_path) / "voices", model_bin=MODEL)
    assert store.folder("tiny") == snapshot(tmp_path) / "voices"


def test_what_torch_hub_fetched_from_a_release_is_found(tmp_path: Path) -> None:
    store = make_store(tmp_path, weight(whole("model.bin", MODEL), host="github-release"))
    checkpoints = put(tmp_path / "torch" / "hub" / "checkpoints", model_bin=WRONG[: len(MODEL)])
    assert store.present("tiny") is None
    put(checkpoints, model_bin=MODEL)
    assert store.found("tiny").path == checkpoints


def test_a_given_folder_that_does_not_fit_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    store = make_store(tmp_path, tiny())
    put_all(tmp_path / "weights" / "tiny")
    with pytest.raises(SetupError, match=r"has no model\.bin") as caught:
        store.folder("tiny", given=tmp_path / "nothing")
    assert not isinstance(caught.value, MissingWeights)
    with pytest.raises(SetupError, match=r"model\.bin has sha256 [0-9a-f]{64}, pinned is") as caught:
        store.folder("tiny", given=put_all(tmp_path / "given", WRONG))
    assert "DUOLOGUE_WEIGHTS_TINY" in str(caught.value)


def test_the_only_file_may_be_given_itself(tmp_path: Path) -> None:
    store = make_store(tmp_path, weight(whole("model.bin", MODEL)))
    given = put(tmp_path / "given", model_bin=MODEL)
    assert store.folder("tiny", given=given / "model.bin") == given
    (given / "model.bin").rename(given / "mine.bin")
    with pytest.raises(SetupError, match=r"mine\.bin is a file, and not by the name of one: model\.bin"):
        store.folder("tiny", given=given / "mine.bin")


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"unknown weights 'whisper-bas'.*Did you mean 'whisper-base'\?.*hibari"):
        Store(MANIFEST, {"DUOLOGUE_HOME": str(tmp_path)}).folder("whisper-bas")


def test_the_second_start_hashes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(tmp_path, tiny())
    model = put_all(tmp_path / "weights" / "tiny") / "model.bin"
    store.folder("tiny")
    hashed: list[Path] = []

    def count(path: Path, sha256_of: object = store_module.sha256_of) -> str:
        assert callable(sha256_of)
        hashed.append(path)
        return str(sha256_of(path))

    monkeypatch.setattr(store_module, "sha256_of", count)
    store.folder("tiny")
    assert hashed == []
    os.utime(model, ns=(1, 1))
    store.folder("tiny")
    assert hashed == [model]


def test_verify_reads_the_bytes_whatever_the_notes_say(tmp_path: Path) -> None:
    store = make_store(tmp_path, tiny())
    model = put_all(tmp_path / "weights" / "tiny") / "model.bin"
    store.folder("tiny")
    assert all(one.ok for one in store.verify("tiny"))
    stat = model.stat()
    model.write_bytes(WRONG)
    os.utime(model, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # same size, same time: only the bytes tell

    checked = {one.file: one.ok for one in store.verify("tiny")}
    assert checked == {"model.bin": False, "config.json": True}
    assert store.present("tiny") is None, "what verify found must hold for the next start too"


def test_verify_of_a_half_cache_names_the_missing_file(tmp_path: Path) -> None:
    store = make_store(tmp_path, tiny())
    assert store.verify("tiny") == []
    put(tmp_path / "weights" / "tiny", config_json=CONFIG)
    checked = {one.file: one for one in store.verify("tiny")}
    assert checked["model.bin"].sha256 is None
    assert not checked["model.bin"].ok
    assert checked["config.json"].ok


def test_damaged_notes_and_an_unwritable_cache_do_no_harm(tmp_path: Path) -> None:
    store = make_store(tmp_path, tiny())
    put_all(tmp_path / "weights" / "tiny")
    (tmp_path / "weights" / ".checked").mkdir()
    (tmp_path / "weights" / ".checked" / "tiny.json").write_bytes(b"not json")
    assert store.found("tiny").place == "cache"

    blocked = tmp_path / "a-file"
    blocked.write_bytes(b"")
    environ = {**store.environ, "DUOLOGUE_HOME": str(blocked), "DUOLOGUE_WEIGHTS_TINY": str(put_all(tmp_path / "x"))}
    assert Store(store.manifest, environ).found("tiny").place == "given"


def test_the_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    assert cache_folder({"DUOLOGUE_HOME": str(tmp_path), "XDG_CACHE_HOME": "/x"}) == tmp_path / "weights"
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "duologue" / "weights"
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "duologue" / "weights"
    assert cache_folder({}) == Path.home() / ".cache" / "duologue" / "weights"


@pytest.mark.parametrize("name", ["hibari", "silero-vad-v6", "dnsmos", "plcmos", "distillmos"])
def test_an_extra_brings_its_own_weights(tmp_path: Path, name: str) -> None:
    installed = MANIFEST[name].installed
    assert installed is not None
    try:
        importlib.metadata.distribution(installed.distribution)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{installed.distribution} is not installed")
    store = Store(MANIFEST, {"DUOLOGUE_HOME": str(tmp_path), "HF_HOME": str(tmp_path)})
    assert store.found(name).place == "package"
