"""What is secret is masked in every form in which it can leave the process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessions.secrets import Secrets


def test_a_bearer_value_hides_its_token_too() -> None:
    secrets = Secrets()
    secrets.add("Bearer sk-12345678")
    assert secrets.mask("sent Bearer sk-12345678, token sk-12345678") == "sent ***, token ***"


def test_bytes_keep_their_length() -> None:
    secrets = Secrets()
    secrets.add("sk-12345678")
    assert secrets.mask_bytes(b'{"key":"sk-12345678"}') == b'{"key":"***********"}'


def test_an_address_keeps_what_is_harmless() -> None:
    secrets = Secrets()
    shown = secrets.mask_url("wss://user:passw0rd@host:99/v1/realtime?model=gpt-x&token=abcdef&sig=123456#frag")
    assert shown == "wss://host:99/v1/realtime?model=gpt-x&token=***&sig=***"
    assert secrets.mask("passw0rd abcdef 123456 user:passw0rd") == "*** *** *** ***"


def test_what_is_shown_of_an_address_can_be_dialled_again() -> None:
    secrets = Secrets()
    plain = "ws://[::1]:99/p%20q?model=a%26b%20c+d&voice=%C3%A9&intent="
    assert secrets.mask_url(plain) == plain
    assert secrets.mask_url("ws://host/?sk-abcdef&key=a%2Fb%20cd") == "ws://host/?***&key=***"
    assert secrets.mask("sk-abcdef a/b cd a%2Fb%20cd") == "*** *** ***"


@given(st.lists(st.text(min_size=4, max_size=12), min_size=1, max_size=4), st.text(max_size=20))
def test_no_secret_survives(values: list[str], around: str) -> None:
    secrets = Secrets()
    for value in values:
        secrets.add(value)
    for value in values:
        if "*" not in value:
            assert value not in secrets.mask(f"{around}{value}{around}")


def test_short_values_do_not_mask_half_of_every_text() -> None:
    secrets = Secrets()
    secrets.add("1")
    assert secrets.mask("turn 1 of 11") == "turn 1 of 11"
