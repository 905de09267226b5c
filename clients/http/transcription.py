"""Speech to text by a service that speaks OpenAI's transcription interface: `POST BASE/audio/transcriptions`.

Word times are asked for (`verbose_json`); a model that has none is asked again without, and not a second time with.
What may pass is tried again: no connection, 408, 429 (after its `Retry-After`), 5xx, and once where no answer comes in
time. What the user must mend (a key that is refused, a service that never answered) ends everything, and the service is
not asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import msgspec

from sessions.clock import NS_PER_S, Clock
from sessions.errors import ConnectFailed, DuologueError, PeerError, SetupError, TransportError
from sessions.secrets import Secrets

_MOST_BYTES: Final = 16 << 20
"""Of one answer: an hour of words with times is a tenth of this."""
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_MOST_LATE: Final = 2
"""Attempts whose answer did not come in time: each costs the whole limit."""
_AGAIN: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_NOT_SO: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
"""What services answer to a form that they do not take."""
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_TIMED: Final = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
_UNTIMED: Final = {"response_format": "json"}


@dataclass(frozen=True, slots=True)
class Service:
    """A service and a model of it. url: its base, up to and with the version ("https://host/v1") · key: "" for none ·
    key_variable: where the key came from, for people · timeout_s: of one attempt · attempts: in all."""

    url: str
    model: str
    key: str = field(default="", repr=False)
    key_variable: str = ""
    timeout_s: float = 120.0
    attempts: int = 5


class TranscribedWord(msgspec.Struct, frozen=True):
    """As the service gives it: seconds from the start of the sound; None for a word that it could not place."""

    word: str
    start: float | None = None
    end: float | None = None


class Transcription(msgspec.Struct, frozen=True):
    """language: as the service names it ("english") · words: None where it has no times."""

    text: str
    language: str | None = None
    words: list[TranscribedWord] | None = None


class NoAnswer(TransportError):
    """A service took longer than its limit."""


class _TryAgain(Exception):
    """What went wrong may pass. wait_s: what the service asked for."""

    def __init__(self, error: DuologueError, wait_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.wait_s = error, wait_s


class TranscriptionClient:
    """Asks one service. May be used from several event loops, one request in each."""

    def __init__(self, service: Service, clock: Clock) -> None:
        self._service, self._clock = service, clock
        self._address = f"{service.url.rstrip('/')}/audio/transcriptions"
        self._secrets = Secrets()
        if service.key:
            self._secrets.add(service.key)
        self._shown = self._secrets.mask_url(self._address)
        self._form = _TIMED
        self._refusal: SetupError | None = None
        self._answered = False

    async def transcribe(self, flac: bytes, language: str) -> Transcription:
        """What the service hears in a FLAC file. language: ISO 639-1, "" to let it find out.

        Raises `SetupError` where it refused the key, `TransportError` where it could not be asked, `PeerError` where it
        refused the sound or answered nonsense.
        """
        wait_s, late = _FIRST_WAIT_S, 0
        for left in reversed(range(self._service.attempts)):
            if self._refusal is not None:
                raise self._refusal
            try:
                return await self._once(flac, language)
            except _TryAgain as again:
                late += isinstance(again.error, NoAnswer)
                if not left or late == _MOST_LATE:
                    self._give_up(again.error)
                    raise again.error from again
                asked_s = wait_s if again.wait_s is None else again.wait_s
                due_ns = self._clock.now_ns() + int(min(asked_s, _LONGEST_WAIT_S) * NS_PER_S)
                await self._clock.sleep_until_ns(due_ns)
                wait_s *= 2
        raise AssertionError("a service is asked at least once")

    def _give_up(self, error: DuologueError) -> None:
        """A service that nobody ever heard of is not waited for again with every further sound."""
        if not self._answered and isinstance(error, TransportError):
            self._refusal = SetupError(str(error), "Check the address, then give the same command again")

    async def _once(self, flac: bytes, language: str) -> Transcription:
        asked = self._form
        status, headers, body = await self._post(flac, language, asked)
        if status in _NOT_SO and asked is _TIMED and _is_about_form(body):
            self._form = _UNTIMED
            status, headers, body = await self._post(flac, language, _UNTIMED)
        if status == HTTPStatus.OK:
            return self._read(body)
        said = self._secrets.mask(_message(body))
        what = f"the transcription service {self._shown} answered {status}" + (f" ({said})" if said else "")
        if status in _REFUSED:
            name = self._service.key_variable
            mend = f"Put a key that it knows into {name}" if name else "Name the variable that holds its key"
            self._refusal = SetupError(what, mend)
            raise self._refusal
        error = PeerError(what, code=str(status))
        if status in _AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _TryAgain(error, _retry_after_s(headers))
        raise error

    async def _post(self, flac: bytes, language: str, form: dict[str, str]) -> tuple[int, Any, bytes]:
        """Status, headers and body of one answer."""
        data = aiohttp.FormData()
        data.add_field("file", flac, filename="reply.flac", content_type="audio/flac")
        for name, value in ({"model": self._service.model, "temperature": "0"} | form).items():
            data.add_field(name, value)
        if language:
            data.add_field("language", language)
        headers = {"Authorization": f"Bearer {self._service.key}"} if self._service.key else {}
        timeout = aiohttp.ClientTimeout(total=self._service.timeout_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self._address, data=data, headers=headers, allow_redirects=False) as answer,
            ):
                body = await self._body(answer)
                self._answered = True
                return answer.status, answer.headers, body
        except TimeoutError as error:
            late = NoAnswer(f"{self._shown} did not answer within {self._service.timeout_s:g} s")
            raise _TryAgain(late) from error
        except aiohttp.ClientConnectorError as error:
            raise _TryAgain(ConnectFailed(f"no connection to {self._shown}: {error.strerror or error}")) from error
        except aiohttp.InvalidURL as error:
            raise SetupError(f"{self._shown} is no address", "Give one like https://host/v1") from error
        except aiohttp.ClientError as error:
            broken = TransportError(f"the connection to {self._shown} broke: {self._secrets.mask(str(error))}")
            raise _TryAgain(broken) from error

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        parts, size = [], 0
        async for part in answer.content.iter_any():
            size += len(part)
            if size > _MOST_BYTES:
                raise PeerError(f"{self._shown} answered with more than {_MOST_BYTES >> 20} MiB")
            parts.append(part)
        return b"".join(parts)

    def _read(self, body: bytes) -> Transcription:
        try:
            return msgspec.json.decode(body, type=Transcription)
        except msgspec.ValidationError as error:
            raise PeerError(f"{self._shown} answered with JSON that is no transcription: {error}") from error
        except msgspec.DecodeError as error:
            start = self._secrets.mask(body[:80].decode("utf-8", "replace"))
            raise PeerError(f"{self._shown} answered with something that is not JSON: {start!r}") from error


def _retry_after_s(headers: Any) -> float | None:
    """`Retry-After` in seconds; a date, which needs a wall clock, is as good as none."""
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _message(body: bytes) -> str:
    """What an error says, in one line: OpenAI's `error.message`, else the beginning of the body."""
    try:
        decoded = msgspec.json.decode(body)
    except msgspec.DecodeError:
        decoded = None
    error = decoded.get("error", decoded.get("detail", "")) if isinstance(decoded, dict) else ""
    said = error.get("message", "") if isinstance(error, dict) else error
    text = said if isinstance(said, str) and said else body.decode("utf-8", "replace")
    return " ".join(text.split())[:200]


def _is_about_form(body: bytes) -> bool:
    said = _message(body).lower()
    return "response_format" in said or "verbose_json" in said or "timestamp" in said
