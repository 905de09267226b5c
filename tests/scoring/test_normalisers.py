"""Normalisers, held against what the published code prints for pairs of ours."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.text.normalisers import NORMALISERS, for_language, normalise, normaliser
from metrics.text.packages import exactly, versions
from sessions.errors import MissingExtra, SetupError

GOLDEN: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent.parent / "data" / "scoring" / "text" / "error_rates.json").read_text(encoding="utf-8")
)
PAIRS = [(language, pair) for language in ("en", "zh") for pair in GOLDEN[language]]


@pytest.mark.parametrize(("language", "pair"), PAIRS)
def test_audiobench_gives_the_published_texts(language: str, pair: dict[str, Any]) -> None:
    for side in ("first", "second"):
        assert normalise(f"audiobench-{language}")(pair[side]) == pair[f"audiobench_{side}"]


def test_every_normaliser_says_what_it_is() -> None:
    for name in NORMALISERS:
        found = normaliser(name)
        assert (found.name, bool(found.version), bool(found.does)) == (name, True, True)
        if name == "audiobench-th":
            continue
        assert found.packages() == found.packages()
        assert normalise(name)("The cat's 3 kittens, 你好 (quietly)…")


@given(text=st.one_of(st.text(), st.text(alphabet="0123456789.,%$£½三十万点负年月日一' -([<>])aon")))
@settings(max_examples=150)
def test_no_text_is_too_odd(text: str) -> None:
    for name in NORMALISERS:
        if name != "audiobench-th":
            assert isinstance(normalise(name)(text), str)


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("en", "whisper-en"),
        ("en-GB", "whisper-en"),
        ("zh_Hans", "uro-zh"),
        ("yue", "uro-zh"),
        ("eng", "whisper-en"),
        ("zho", "uro-zh"),
        ("de", "basic"),
        ("", "basic"),
    ],
)
def test_a_language_has_its_normaliser(language: str, name: str) -> None:
    assert for_language(language) == name


ATOMS = (
    "one two oh million hundred dollars cents $ £5 % 1 2.5 3/4 1,000 20s 1st twenty-one nineteen point double and a"
    " it's I'll gonna wanna lemme y'all cause kinda sorta dunno imma ma'am won't o'clock he'd been Mr. Dr. U.S.A."
    " colour theatre naïve - ( ) [ ] < > 😀 um uh a.m. ... ,"
)
SPOKEN = st.lists(st.sampled_from(ATOMS.split()), max_size=9).map(" ".join)


@given(text=SPOKEN)
@settings(max_examples=300)
def test_whispers_normalisers_are_whispers_own(text: str) -> None:
    """The package adds to them; transformers carries them as they are."""
    theirs = pytest.importorskip("transformers.models.whisper.english_normalizer")
    spelling = json.loads((files("whisper_normalizer") / "normalizers" / "english.json").read_text())
    assert normalise("whisper-en")(text) == theirs.EnglishTextNormalizer(spelling)(text)
    assert normalise("whisper-basic")(text) == theirs.BasicTextNormalizer()(text)


def test_a_cause_stays_a_cause() -> None:
    assert normalise("whisper-en")("The cause is kinda clear.") == "the cause is kinda clear"


def test_an_unknown_normaliser_names_the_nearest() -> None:
    with pytest.raises(SetupError, match="Did you mean 'whisper-en'"):
        normaliser("whisper-eng")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Don't  stop — now!", "dont stop now"),
        ("हिन्दी में", "हिन्दी में"),
        ("❤️ 1️⃣ 👩‍🚀", "1"),
        ("ﬁve ＡＢＣ", "five abc"),
        ("Straße", "strasse"),
        ("…!?", ""),
    ],
)
def test_basic_keeps_the_vowels_of_every_script(text: str, plain: str) -> None:
    assert normalise("basic")(text) == plain


def test_audiobench_oddities_that_no_pair_shows() -> None:
    assert normalise("audiobench-en")("it took 3.5 hours, not 21") == "it took threefive hours not 21"
    assert normalise("audiobench-imda4")("Makan {lah} {no} lah, 3 orang") == "makan no lah three orang"
    assert normalise("audiobench-imda4")("வணக்கம்!") == "வணக்கம்"
    assert normalise("audiobench-vi")("Xin chào, Việt-Nam!") == "xin chào việt nam"


def test_chinese_numbers_are_spelled_by_the_published_version_only() -> None:
    assert normalise("uro-zh")("101000") == "十万零一千"
    with pytest.raises(SetupError, match=r"needs cn2an 0\.5\.22, and"):
        exactly("cn2an", "0.5.22", "the normaliser uro-zh")


def test_a_package_that_is_not_there_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r"duologue\[text\]"):
        versions("no-such-package-of-words")
