"""Speech to text by a service: a local stand-in that answers as such services do, and in every way that goes wrong."""

from __future__ import annotations

import asyncio
import importlib
import io
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import soundfile
from aiohttp import BodyPartReader, web

from clients.http.transcription import Service, Transcription, TranscriptionClient
from harness.recognise.backend import Asked
from harness.recognise.endpoint import Endpoint
from harness.recognise.metric import METRIC, identify, make
from metrics.result import Failed
from metrics.transcript import WORDS, Transcript, Word, transcript_of
from sessions.clock import NS_PER_S
from sessions.errors import ConnectFailed, PeerError, SetupError, TransportError
from tests.scoring.voices import RATE_HZ, piece

pytestmark = pytest.mark.sockets
KEY = "sk-0123456789abcdefghij"
TIMED = {
    "task": "transcribe",
    "language": "english",
    "duration": 1.0,
    "text": " It is nine. ",
    "words": [
        {"word": "It", "start": 0.1, "end": 0.2},
        {"word": "is", "start": 0.2, "end": 0.4},
        {"word": "nine", "start": 0.4, "end": 0.9},
    ],
    "segments": [{"id": 0, "start": 0.0, "end": 1.0, "text": " It is nine."}],
}


@dataclass
class Asking:
    """One request as the service got it."""

    form: dict[str, str]
    authorization: str
    rate_hz: int
    samples: int


Answer = Callable[[Asking], web.StreamResponse | Awaitable[web.StreamResponse]]


@dataclass
class StandIn:
    """Answers each request with the next of `answers`, the last one for ever."""

    answers: list[Answer]
    asked: list[Asking] = field(default_factory=list)
    url: str = ""
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        form, sound = {}, b""
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader) and part.name is not None
            if part.name == "file":
                assert part.filename == "reply.flac"
                sound = bytes(await part.read())
            else:
                form[part.name] = (await part.read()).decode()
        samples, rate_hz = soundfile.read(io.BytesIO(sound), dtype="int16")
        self.asked.append(Asking(form, request.headers.get("Authorization", ""), rate_hz, len(samples)))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1](self.asked[-1])
        return await answer if isinstance(answer, Awaitable) else answer


@pytest.fixture
def service() -> Iterator[StandIn]:
    """On a loop of its own, since the back end brings one for each request."""
    stand_in = StandIn([lambda _: web.json_response(TIMED)])
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/audio/transcriptions", stand_in.handle)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        stand_in.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        ready.set()
        await stand_in.stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(30)
    yield stand_in
    loop.call_soon_threadsafe(stand_in.stop.set)
    thread.join(30)
    loop.close()


class NoWait:
    """A clock on which waiting takes no time; it keeps how long each wait was."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    def now_ns(self) -> int:
        return 0

    async def sleep_until_ns(self, due_ns: int) -> None:
        self.waits_s.append(due_ns / NS_PER_S)


def ask(stand_in: StandIn, clock: NoWait | None = None, **changes: object) -> Transcription:
    settings: dict[str, object] = {"key": KEY, "key_variable": "ASR_KEY", "attempts": 3} | changes
    client = TranscriptionClient(Service(stand_in.url, "whisper-1", **settings), clock or NoWait())  # type: ignore[arg-type]
    return asyncio.run(client.transcribe(flac(), "en"))


def flac(seconds: float = 1.0) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, np.zeros(int(RATE_HZ * seconds), np.int16), RATE_HZ, format="FLAC")
    return out.getvalue()


def refused(status: int, message: str = "no", **headers: str) -> Answer:
    return lambda _: web.json_response({"error": {"message": message}}, status=status, headers=headers)


def test_what_is_asked_and_what_is_heard(service: StandIn) -> None:
    found = ask(service)
    assert found.text == " It is nine. "
    assert found.words is not None
    assert [word.word for word in found.words] == ["It", "is", "nine"]
    (asked,) = service.asked
    assert asked.form == {
        "model": "whisper-1",
        "temperature": "0",
        "language": "en",
        "response_format": "verbose_json",
        "timestamp_granularities[]": "word",
    }
    assert (asked.authorization, asked.rate_hz, asked.samples) == (f"Bearer {KEY}", RATE_HZ, RATE_HZ)


NOT_VERBOSE = "response_format 'verbose_json' is not compatible with model 'x'. Use 'json' or 'text' instead."
NOT_ALLOWED = {"type": "enum", "loc": ["body", "response_format"], "msg": "Input should be 'json' or 'text'"}


@pytest.mark.parametrize(
    ("status", "body"), [(400, {"error": {"message": NOT_VERBOSE}}), (422, {"detail": [NOT_ALLOWED]})]
)
def test_a_model_without_word_times_is_asked_without(service: StandIn, status: int, body: object) -> None:
    service.answers = [
        lambda _: web.json_response(body, status=status),
        lambda _: web.json_response({"text": "It is nine."}),
    ]
    client = TranscriptionClient(Service(service.url, "x"), NoWait())
    for _ in range(2):
        assert asyncio.run(client.transcribe(flac(), "")) == Transcription("It is nine.")
    assert [asked.form["response_format"] for asked in service.asked] == ["verbose_json", "json", "json"]
    assert "language" not in service.asked[0].form
    assert service.asked[0].authorization == ""


def test_a_refused_key_ends_everything(service: StandIn) -> None:
    service.answers = [refused(401, f"Incorrect API key provided: {KEY}.")]
    client = TranscriptionClient(Service(service.url, "whisper-1", KEY, "ASR_KEY"), NoWait())
    for _ in range(2):
        with pytest.raises(SetupError, match=r"answered 401.*Put a key that it knows into ASR_KEY") as caught:
            asyncio.run(client.transcribe(flac(), "en"))
        assert KEY not in str(caught.value)
    assert len(service.asked) == 1
    assert KEY not in repr(Service(service.url, "whisper-1", KEY))


def test_the_rate_limit_is_waited_for(service: StandIn) -> None:
    service.answers = [
        refused(429, **{"Retry-After": "7"}),
        refused(429, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
        lambda _: web.json_response(TIMED),
    ]
    clock = NoWait()
    assert ask(service, clock).text.strip() == "It is nine."
    assert clock.waits_s == [7.0, 2.0]


def test_no_wait_is_longer_than_a_minute(service: StandIn) -> None:
    service.answers = [refused(429, **{"Retry-After": "86400"}), lambda _: web.json_response(TIMED)]
    clock = NoWait()
    ask(service, clock)
    assert clock.waits_s == [60.0]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again_and_then_named(service: StandIn, status: int) -> None:
    service.answers = [refused(status, "busy\n now")]
    clock = NoWait()
    with pytest.raises(PeerError, match=rf"answered {status} \(busy now\)") as caught:
        ask(service, clock)
    assert caught.value.code == str(status)
    assert (len(service.asked), clock.waits_s) == (3, [1.0, 2.0])


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_what_will_not_pass_is_not_tried_again(service: StandIn, status: int) -> None:
    service.answers = [refused(status, "no such model")]
    with pytest.raises(PeerError, match=rf"answered {status} \(no such model\)"):
        ask(service)
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>hello</html>", "something that is not JSON: '<html>hello</html>'"),
        (b'{"text": "It is', "something that is not JSON"),
        (b"{}", "JSON that is no transcription: Object missing required field `text`"),
        (b'{"text": 5}', "JSON that is no transcription: Expected `str`"),
        (b'{"text": "a", "words": [{"start": 0.1}]}', "JSON that is no transcription: Object missing required field"),
        (b"\xff\xfe", "something that is not JSON"),
        (b"", "something that is not JSON"),
    ],
)
def test_nonsense_is_named(service: StandIn, body: bytes, message: str) -> None:
    service.answers = [lambda _: web.Response(body=body, content_type="application/json")]
    with pytest.raises(PeerError, match=message):
        ask(service)
    assert len(service.asked) == 1


def test_an_endless_answer_is_cut(service: StandIn) -> None:
    service.answers = [lambda _: web.Response(body=b" " * (17 << 20))]
    with pytest.raises(PeerError, match="more than 16 MiB"):
        ask(service)


def test_a_service_that_does_not_answer(service: StandIn) -> None:
    async def never(_: Asking) -> web.StreamResponse:
        await service.stop.wait()
        return web.json_response(TIMED)

    service.answers = [never]
    client = TranscriptionClient(Service(service.url, "whisper-1", timeout_s=0.2), NoWait())
    with pytest.raises(TransportError, match=r"did not answer within 0.2 s"):
        asyncio.run(client.transcribe(flac(), ""))
    with pytest.raises(SetupError, match=r"did not answer within 0.2 s. Check the address"):
        asyncio.run(client.transcribe(flac(), ""))
    assert len(service.asked) <= 2


async def broken() -> web.StreamResponse:
    """The server ends the connection without an answer."""
    raise asyncio.CancelledError


def test_one_that_answered_before_is_asked_again(service: StandIn) -> None:
    client = TranscriptionClient(Service(service.url, "whisper-1", attempts=1), NoWait())
    asyncio.run(client.transcribe(flac(), ""))
    service.answers = [lambda _: broken()]
    for _ in range(2):
        with pytest.raises(TransportError, match="broke"):
            asyncio.run(client.transcribe(flac(), ""))
    assert len(service.asked) == 3


def test_a_rate_limit_is_no_silence_of_the_worker(service: StandIn) -> None:
    """The engine waits for as long as the client may, and no longer where nobody else is waited for."""
    last = Service(service.url, "x")
    assert METRIC.patience
    module, _, name = METRIC.patience.partition(":")
    patience_s = getattr(importlib.import_module(module), name)
    assert patience_s(options(service)) >= last.attempts * last.timeout_s + (last.attempts - 1) * 60
    assert patience_s(options(service, asr="faster-whisper")) == 0


@pytest.mark.parametrize("times", [(-5.0, 0.4), (0.4, 0.1), (0.1, 1e9), (1e9, 2e9)])
def test_word_times_outside_the_sound_are_dropped(service: StandIn, times: tuple[float, float]) -> None:
    answer = TIMED | {"words": [{"word": "It", "start": times[0], "end": times[1]}]}
    service.answers = [lambda _: web.json_response(answer)]
    (heard,) = make(options(service)).score([piece(tone(1.0))])
    found = transcript_of(heard)
    assert isinstance(found, Transcript)
    assert (found.text, found.words) == ("It is nine.", [Word("It")])


@pytest.mark.parametrize("left", [{"start": None, "end": None}, {"start": 0.2, "end": None}, {}])
def test_a_word_without_times_costs_no_transcript(service: StandIn, left: dict[str, float | None]) -> None:
    words = [{"word": "It", "start": 0.1, "end": 0.2}, {"word": "is"} | left]
    service.answers = [lambda _: web.json_response(TIMED | {"words": words})]
    (heard,) = make(options(service)).score([piece(tone(1.0))])
    found = transcript_of(heard)
    assert isinstance(found, Transcript)
    assert [word.text for word in found.words] == ["It", "is"]
    assert (found.words[0], found.timed) == (Word("It", 0.1, 0.2), False)


@pytest.mark.parametrize(("says", "flags"), [("swedish", []), ("klingon", []), ("finnish", ["sounds like fi"])])
def test_the_language_is_told_by_its_name(service: StandIn, says: str, flags: list[str]) -> None:
    service.answers = [lambda _: web.json_response(TIMED | {"language": says})]
    (heard,) = make(options(service)).score([piece(tone(1.0), "sv")])
    assert [flag.partition(":")[0] for flag in heard.flags] == flags


def test_a_service_that_is_not_there(service: StandIn) -> None:
    service.url = "http://127.0.0.1:1/v1"
    clock = NoWait()
    with pytest.raises(ConnectFailed, match=r"no connection to http://127.0.0.1:1/v1"):
        ask(service, clock)
    assert clock.waits_s == [1.0, 2.0]


def options(service: StandIn, **changes: str) -> dict[str, str]:
    plain = {option.name: option.default for option in METRIC.options}
    return plain | {"asr": "endpoint:whisper-1", "asr_url": service.url, "speech": "energy-1"} | changes


def tone(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (0.2 * np.sin(np.arange(int(RATE_HZ * seconds)) / 8)).astype(np.float32)


def test_as_a_recogniser(service: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASR_KEY", KEY)
    asked = options(service, asr_key="ASR_KEY")
    identity = identify(asked)
    assert (identity["backend"], identity["url"], identity["model"]) == ("endpoint", service.url, "whisper-1")
    assert KEY not in str(identity)
    scorer = make(asked)
    assert scorer.check() == ""
    assert service.asked == []
    found = [transcript_of(score) for score in scorer.score([piece(tone(1.0 + n / 10)) for n in range(6)])]
    first = found[0]
    assert isinstance(first, Transcript)
    assert first.text == "It is nine."
    assert (first.language, first.asked_language, first.backend, first.model) == ("en", "en", "endpoint", "whisper-1")
    assert first.words[2] == Word("nine", 0.4, 0.9)
    assert all(isinstance(one, Transcript) for one in found)
    assert len(service.asked) == 6


def test_one_that_failed_is_an_error_of_its_own(service: StandIn) -> None:
    service.answers = [refused(404, "no such model")]
    (score,) = make(options(service)).score([piece(tone(1.0))])
    failed = score.figures[WORDS]
    assert isinstance(failed, Failed)
    assert "answered 404 (no such model)" in failed.error


def test_more_than_ten_minutes_go_in_parts(service: StandIn) -> None:
    backend = Endpoint(Asked("whisper-1", service.url))
    assert backend.longest_s == 600
    assert backend.hear(tone(1.0), "en").language == "en"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"asr": "endpoint"}, "needs the name of a model"),
        ({"asr_url": ""}, "needs an address"),
        ({"asr_url": "whisper.example"}, "is no address of a service"),
        ({"asr_url": "http://me:secret@whisper.example/v1"}, "holds a user name or a query"),
        ({"asr_url": "http://whisper.example/v1?key=secret"}, "holds a user name or a query"),
        ({"asr_key": "NOT_SET_ANYWHERE"}, "variable NOT_SET_ANYWHERE is not set"),
        ({"asr_key": "sk-secret"}, "is not the name of an environment variable"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_asked(
    service: StandIn, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(SetupError, match=message) as caught:
        identify(options(service, **changes))
    assert "secret" not in str(caught.value)
    assert service.asked == []
