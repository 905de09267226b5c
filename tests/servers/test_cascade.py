"""The cascade's pipeline, with engines that do what a test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest
import pytest_asyncio

from servers.engines.energy import EnergyDetector
from servers.engines.llama import Finish, Message
from servers.models.cascade import CascadeServer
from servers.models.cascade_history import History
from servers.models.cascade_parts import Recipe
from servers.models.cascade_reply import NOT_UNDERSTOOD, PIECE_SAMPLES, RATE_HZ, SPOKEN_STYLE
from servers.speech_model import Audio, Fault, Remembering, SessionSettings, Stage, Text
from sessions.errors import PeerError
from tests.support.cascade_rig import (
    NO_SOUND,
    PATIENCE_S,
    Ears,
    Mind,
    Mouth,
    audio,
    engine_threads,
    faults,
    idle,
    opened,
    outline,
    pieces_of,
    said,
    turn,
)

Opener = Callable[..., CascadeServer]


@pytest_asyncio.fixture
async def scripted() -> AsyncIterator[Opener]:
    """Makes started servers of scripted engines; ends them, and sees to it that no thread of theirs is left."""
    servers: list[CascadeServer] = []

    def make(ears: Ears | None = None, mind: Mind | None = None, mouth: Mouth | None = None) -> CascadeServer:
        the_ears, the_mind, the_mouth = ears or Ears(), mind or Mind(), mouth or Mouth()
        recipe = Recipe(
            asr=lambda: the_ears,
            llm=lambda: the_mind,
            tts=lambda: the_mouth,
            vad=lambda: lambda: EnergyDetector(RATE_HZ),
        )
        servers.append(CascadeServer(recipe))
        return servers[-1]

    yield make
    for server in servers:
        await server.aclose()
    assert engine_threads() == []


async def test_a_reply_comes_in_order_each_clause_with_its_sound(scripted: Opener) -> None:
    mind = Mind(["Sure", ", one two three", " four,", " and more", ". So ", "it is."])
    model = await opened(scripted(mind=mind))
    pieces = await pieces_of(model, turn())
    assert outline(pieces) == [
        "asr_done", "Text", "llm_first_token",
        "Text", "tts_first_audio", "Audio", "Text", "Audio", "Text", "Audio",
    ]  # fmt: skip
    replies = [piece.text for piece in pieces if isinstance(piece, Text)]
    assert replies == ["hello", "Sure, one two three four,", " and more.", " So it is."]
    assert len(audio(pieces)) == 10 * RATE_HZ // 4
    stages = [piece.t_ns for piece in pieces if isinstance(piece, Stage)]
    assert stages == sorted(stages)
    assert max(len(piece.pcm) for piece in pieces if isinstance(piece, Audio)) == PIECE_SAMPLES


async def test_the_first_clause_is_spoken_while_the_model_still_talks(scripted: Opener) -> None:
    mind = Mind(["Yes it is. "], endless=True)
    server = scripted(mind=mind)
    model = await opened(server)
    async with aclosing(model.reply(turn())) as pieces:
        async for piece in pieces:
            if isinstance(piece, Audio):
                break
        assert server.busy == 1
        assert not mind.stopped.is_set()
    assert mind.stopped.wait(PATIENCE_S)
    await idle(server)


async def test_a_cancelled_task_stops_the_model_too(scripted: Opener) -> None:
    mind = Mind(["Yes it is. "], endless=True)
    server = scripted(mind=mind)
    model = await opened(server)
    task = asyncio.create_task(pieces_of(model, turn()))
    while not mind.prompts:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert mind.stopped.wait(PATIENCE_S)
    await idle(server)


async def test_the_next_turn_remembers_what_was_said(scripted: Opener) -> None:
    mind = Mind()
    model = await opened(scripted(Ears("my name is Anna"), mind))
    await pieces_of(model, turn())
    await pieces_of(model, turn(NO_SOUND, "what is my name"))
    assert [message["content"] for message in mind.prompts[1]] == [
        SPOKEN_STYLE,
        "my name is Anna",
        "Well, yes.",
        "what is my name",
    ]


@pytest.mark.parametrize(
    ("ms", "kept"),
    [
        (-5, ""),
        (0, ""),
        (249, ""),
        (1250, "It is very big and"),
        (1300, "It is very big and"),
        (1500, "It is very big and old,"),
        (1750, "It is very big and old, so"),
        (99_999, "It is very big and old, so they say."),
    ],
)
async def test_what_was_not_heard_is_forgotten(scripted: Opener, ms: int, kept: str) -> None:
    mind = Mind(["It is very big and old, so they say."])
    model = await opened(scripted(mind=mind))
    await pieces_of(model, turn())
    model.heard(ms)
    await pieces_of(model, turn())
    remembered = [message["content"] for message in mind.prompts[1] if message["role"] == "assistant"]
    assert remembered == ([kept] if kept else [])


async def test_a_reply_that_was_cut_short_is_remembered_as_far_as_it_was_yielded(scripted: Opener) -> None:
    mind = Mind(["Yes it is. "], endless=True)
    model = await opened(scripted(mind=mind))
    async with aclosing(model.reply(turn())) as pieces:
        async for piece in pieces:
            if isinstance(piece, Audio):
                break
    mind.endless = False
    await pieces_of(model, turn())
    assert mind.prompts[1][2] == Message(role="assistant", content="Yes it is.")


async def test_words_that_came_too_late_for_their_reply_are_remembered(scripted: Opener) -> None:
    ears, mind = Ears("first", threading.Event()), Mind()
    server = scripted(ears, mind)
    model = await opened(server)
    task = asyncio.create_task(pieces_of(model, turn()))
    while not server.busy:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ears.gate is not None
    ears.gate.set()
    await idle(server)
    await pieces_of(model, turn(NO_SOUND, "second"))
    assert [message["content"] for message in mind.prompts[0][1:]] == ["first", "second"]


async def test_nothing_understood_is_said_and_not_remembered(scripted: Opener) -> None:
    ears, mind = Ears(""), Mind()
    model = await opened(scripted(ears, mind))
    pieces = await pieces_of(model, turn())
    assert outline(pieces)[:3] == ["asr_done", "Text", "asr_empty"]
    assert (said(pieces), said(pieces, "user")) == (NOT_UNDERSTOOD, "")
    assert len(audio(pieces)) > 0
    assert mind.prompts == []
    ears.text = "hello"
    await pieces_of(model, turn())
    assert [message["role"] for message in mind.prompts[0]] == ["system", "user"]


async def test_typed_text_needs_no_ears_and_text_only_no_mouth(scripted: Opener) -> None:
    broken = ValueError("must not be asked")
    mind = Mind()
    model = await opened(scripted(Ears(error=broken), mind, Mouth(error=broken)))
    pieces = await pieces_of(model, turn(NO_SOUND, "typed", text_only=True))
    assert outline(pieces) == ["llm_first_token", "Text"]
    assert mind.prompts[0][-1]["content"] == "typed"
    model.configure(SessionSettings(text_only=True))
    assert outline(await pieces_of(model, turn(NO_SOUND, "typed"))) == ["llm_first_token", "Text"]


async def test_typed_and_spoken_words_of_one_turn_are_one_question(scripted: Opener) -> None:
    mind = Mind()
    model = await opened(scripted(Ears("spoken"), mind))
    await pieces_of(model, turn(text="typed"))
    assert mind.prompts[0][-1]["content"] == "typed\nspoken"


async def test_a_reply_that_nobody_asked_a_question_for_goes_by_its_instructions(scripted: Opener) -> None:
    mind = Mind()
    model = await opened(scripted(mind=mind))
    model.configure(SessionSettings(instructions="Be a pirate."))
    await pieces_of(model, turn(NO_SOUND))
    await pieces_of(model, turn(NO_SOUND, instructions="Greet."))
    assert mind.prompts[0] == [Message(role="system", content=f"{SPOKEN_STYLE}\nBe a pirate.")]
    assert mind.prompts[1][0]["content"] == f"{SPOKEN_STYLE}\nGreet."


async def test_what_a_client_says_was_said_before_is_in_the_prompt(scripted: Opener) -> None:
    mind = Mind()
    model = await opened(scripted(mind=mind))
    assert isinstance(model, Remembering)
    model.remember("user", "I am Anna.")
    model.remember("assistant", "Hello Anna.")
    model.heard(0)  # the last reply is none of these
    await pieces_of(model, turn())
    assert [message["content"] for message in mind.prompts[0][1:]] == ["I am Anna.", "Hello Anna.", "hello"]


async def test_a_long_conversation_forgets_its_beginning(scripted: Opener) -> None:
    mind = Mind(context_tokens=1000)  # of which up to 320 are kept for the answer
    model = await opened(scripted(Ears("word " * 60), mind))
    for _ in range(20):
        await pieces_of(model, turn())
    lengths = [len(prompt) for prompt in mind.prompts]
    assert lengths[:3] == [2, 4, 6]
    assert max(lengths) < 16
    assert all(prompt[0]["role"] == "system" and prompt[1]["role"] == "user" for prompt in mind.prompts)


async def test_a_prompt_that_the_model_refuses_is_shortened_until_it_fits(scripted: Opener) -> None:
    mind = Mind()
    model = await opened(scripted(mind=mind))
    for _ in range(3):
        await pieces_of(model, turn())
    mind.too_long_from = 5
    pieces = await pieces_of(model, turn())
    assert (said(pieces), faults(pieces)) == ("Well, yes.", [])
    assert [len(prompt) for prompt in mind.prompts[3:]] == [8, 6, 4]
    mind.too_long_from = 2
    assert faults(await pieces_of(model, turn())) == [("error", "context_length_exceeded")]
    mind.too_long_from = 1_000_000
    assert said(await pieces_of(model, turn())) == "Well, yes."


async def test_an_answer_at_its_limit_is_spoken_and_marked_incomplete(scripted: Opener) -> None:
    model = await opened(scripted(mind=Mind(["It is"], Finish("length"))))
    model.configure(SessionSettings(max_output_tokens=2))
    pieces = await pieces_of(model, turn())
    assert (said(pieces), faults(pieces)) == ("It is", [("incomplete", "max_output_tokens")])
    assert isinstance(pieces[-1], Fault)
    assert len(audio(pieces)) > 0


@pytest.mark.parametrize("part", ["asr", "llm", "tts"])
async def test_an_engine_that_breaks_costs_one_reply(
    scripted: Opener, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    ears, mind, mouth = Ears(), Mind(), Mouth()
    parts: dict[str, Ears | Mind | Mouth] = {"asr": ears, "llm": mind, "tts": mouth}
    broken = parts[part]
    broken.error = ZeroDivisionError("a secret of the machine")
    server = scripted(ears, mind, mouth)
    model = await opened(server)
    pieces = await pieces_of(model, turn())
    assert faults(pieces) == [("error", f"{part}_failed")]
    assert isinstance(pieces[-1], Fault)
    assert "secret" not in pieces[-1].message
    assert "secret" in caplog.text
    await idle(server)
    broken.error = None
    assert said(await pieces_of(model, turn())) == "Well, yes."


async def test_what_has_no_sound_costs_no_sound(scripted: Opener) -> None:
    model = await opened(scripted(mind=Mind(["Yes it is. ", "— — —"])))
    pieces = await pieces_of(model, turn())
    assert said(pieces) == "Yes it is. — — —"
    assert len(audio(pieces)) == 3 * RATE_HZ // 4


async def test_unknown_voices_are_refused_by_name(scripted: Opener) -> None:
    model = await opened(scripted())
    model.configure(SessionSettings(voice="heart"))
    with pytest.raises(PeerError, match=r"unknown voice 'alloy'.*heart") as refused:
        model.configure(SessionSettings(voice="alloy"))
    assert refused.value.code == "invalid_value"


async def test_conversations_are_apart_and_more_of_them_than_slots_get_their_answers(scripted: Opener) -> None:
    mind = Mind()
    server = scripted(mind=mind)
    await server.start()
    models = [server.open() for _ in range(5)]
    replies = await asyncio.gather(*(pieces_of(model, turn(NO_SOUND, f"I am {i}")) for i, model in enumerate(models)))
    assert [said(pieces) for pieces in replies] == ["Well, yes."] * 5
    assert sorted(prompt[-1]["content"] for prompt in mind.prompts) == [f"I am {i}" for i in range(5)]
    assert {len(prompt) for prompt in mind.prompts} == {2}


async def test_a_server_that_ends_stops_its_replies(scripted: Opener) -> None:
    mind = Mind(["Yes it is. "], endless=True)
    server = scripted(mind=mind)
    model = await opened(server)
    task = asyncio.create_task(pieces_of(model, turn()))
    while not mind.prompts:
        await asyncio.sleep(0.001)
    await server.aclose()
    assert (mind.stopped.is_set(), mind.closed, engine_threads()) == (True, True, [])
    assert faults(await task)[-1][0] == "error"


def test_history_forgets_whole_turns_and_never_the_newest() -> None:
    history = History()
    history.add("assistant", "Hello.")
    history.add("user", "one")
    history.begin_reply().said("1")
    history.add("user", "two")
    assert history.forget_oldest()
    assert history.forget_oldest()
    assert not history.forget_oldest()
    assert history.messages("S", 0) == [Message(role="system", content="S"), Message(role="user", content="two")]
