"""Words as they are printed, joined from the pieces that recognisers cut them into."""

from __future__ import annotations

import pytest

from metrics.text.printed import printed
from metrics.transcript import Transcript, Word


def joined(text: str, *pieces: str) -> list[str]:
    words = [Word(piece, at / 10, (at + 1) / 10, 0.9) for at, piece in enumerate(pieces)]
    return [word.text for word in printed(Transcript(text, words=words))]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("L'eau de l'hôtel", "L|'eau de l|'hôtel"),
        ("L’eau n’est-elle pas", "L’|eau n|’est|-elle pas"),
        ("Laissez-moi vérifier.", "Laissez|-moi vérifier."),
        ("Um-hum, it's 3.5, 1,000 or 12:30.", "Um|-hum, it|'s 3|.5, 1|,000 or 12|:30."),
        ("Uh-huh, aujourd'hui", "Uh|huh aujourd'|hui"),
        ("the dogs' bones, 'hello' - and rock 'n' roll", "the dogs' bones, 'hello' - and rock 'n' roll"),
        ("see,it said—this", "see ,it said —this"),
        ("a - b 5 .5", "a - b 5 .5"),
        ("不要 3.5 元", "不 要 3|.5 元"),
    ],
)
def test_pieces_are_joined_as_the_text_has_them(text: str, pieces: str) -> None:
    words = joined(text, *pieces.replace("|", " ").split())
    assert len(words) == len(pieces.split())
    for word, parts in zip(words, pieces.split(), strict=True):
        assert word in (parts.replace("|", ""), parts.replace("|", "-"))


def test_a_joined_word_has_its_pieces_times_and_their_mean_probability() -> None:
    pieces = [Word("D", 1.0, 1.1, 0.4), Word("'accord,", 1.2, 1.5, 0.8), Word("oui.", 1.6, 1.9)]
    assert printed(Transcript("D'accord, oui.", words=pieces)) == [
        Word("D'accord,", 1.0, 1.5, pytest.approx(0.6)),  # type: ignore[arg-type]
        pieces[2],
    ]
    untimed = printed(Transcript("D'accord", words=[Word("D"), Word("'accord")]))
    assert untimed == [Word("D'accord")]


def test_words_that_the_text_does_not_have_stay_as_they_are() -> None:
    assert joined("Elle et lui: d'accord", "Ils", "d", "'accord", "bon") == ["Ils", "d'accord", "bon"]
    assert joined("", "l", "'eau") == ["l", "'eau"]
    assert joined("l'eau") == []
