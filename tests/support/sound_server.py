"""A machine with a microphone and a loudspeaker, made of software: PulseAudio with two null sinks, as a child process.

What is played into the sink `mic` is heard at its monitor, the system's microphone; what the program plays goes into
the sink `speaker`, whose monitor is recorded. Programs find both through ALSA's plugin for PulseAudio.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

RATE_HZ = 24_000
START_S = 20
_CHUNK = RATE_HZ // 50
_PROGRAMS = ("pulseaudio", "pacat", "parec")
_ALSA = Path("/usr/share/alsa/alsa.conf")
_PLUGINS = "lib*/*/alsa-lib/libasound_module_pcm_pulse.so"

_DAEMON = """\
load-module module-native-protocol-unix socket={socket} auth-anonymous=1
load-module module-null-sink sink_name=mic rate=48000 channels=1
load-module module-null-sink sink_name=speaker rate=48000 channels=1
set-default-sink speaker
set-default-source mic.monitor
"""
_DEVICES = """\
pcm.!default {{ type pulse server "unix:{socket}" }}
ctl.!default {{ type pulse server "unix:{socket}" }}
"""

Pcm = NDArray[np.int16]


def require() -> None:
    """Skips the test where the programs or PortAudio are not there; in CI, which installs them, that is a failure."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if not _ALSA.exists() or not list(Path("/usr").glob(_PLUGINS)):
        missing.append("libasound2-plugins")
    try:
        import sounddevice  # noqa: F401
    except (ImportError, OSError) as error:
        missing.append(str(error))
    if not missing:
        return
    why = f"no {', '.join(missing)}; on Debian: apt-get install pulseaudio libportaudio2 libasound2-plugins"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@dataclass(slots=True)
class SoundServer:
    """environment: for a program that is to use the two devices · played: what is still to be heard by the
    microphone."""

    environment: dict[str, str]
    played: asyncio.Queue[Pcm] = field(default_factory=asyncio.Queue)
    recorded: bytearray = field(default_factory=bytearray)

    def speak(self, pcm: Pcm) -> None:
        """The microphone will hear this next, int16 (samples,) at 24 kHz; in between there is silence."""
        self.played.put_nowait(pcm)

    @property
    def loudspeaker(self) -> Pcm:
        """All that came out of it so far."""
        whole = len(self.recorded) // 2 * 2
        return np.frombuffer(bytes(self.recorded[:whole]), dtype="<i2").astype(np.int16)


@contextlib.asynccontextmanager
async def sound_server(folder: Path) -> AsyncIterator[SoundServer]:
    """folder: an empty one with a short path (a socket's name has at most 107 bytes)."""
    require()
    socket = folder / "s"
    (folder / "daemon.pa").write_text(_DAEMON.format(socket=socket))
    (folder / "asound.conf").write_text(_DEVICES.format(socket=socket))
    home = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "PULSE_RUNTIME_PATH": str(folder / "run")}
    address = {"PULSE_SERVER": f"unix:{socket}", "ALSA_CONFIG_PATH": f"{_ALSA}:{folder / 'asound.conf'}"}
    daemon = ["pulseaudio", "--daemonize=no", "-n", "--exit-idle-time=-1", "--use-pid-file=no", "--disable-shm=yes"]
    async with contextlib.AsyncExitStack() as stack:
        child = await stack.enter_async_context(_process(*daemon, "-F", str(folder / "daemon.pa"), extra=home))
        async with asyncio.timeout(START_S):
            while not socket.exists():
                assert child.returncode is None, "PulseAudio ended at its start"
                await asyncio.sleep(0.05)
        server = SoundServer({**home, **address})
        form = [f"--rate={RATE_HZ}", "--format=s16le", "--channels=1", "--raw", "--latency-msec=100"]
        player = await stack.enter_async_context(_process("pacat", "-p", "-d", "mic", *form, extra=server.environment))
        recorder = await stack.enter_async_context(
            _process("parec", "-d", "speaker.monitor", *form, extra=server.environment)
        )
        tasks = [asyncio.create_task(_feed(server, player)), asyncio.create_task(_record(server, recorder))]
        try:
            yield server
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _feed(server: SoundServer, player: asyncio.subprocess.Process) -> None:
    """A microphone is never off: silence between what is said. The player takes it as fast as it is played."""
    assert player.stdin is not None
    silence = bytes(2 * _CHUNK)
    while True:
        pieces: Iterator[bytes] = iter([silence])
        if not server.played.empty():
            data = server.played.get_nowait().astype("<i2").tobytes()
            pieces = (data[at : at + 2 * _CHUNK] for at in range(0, len(data), 2 * _CHUNK))
        for piece in pieces:
            player.stdin.write(piece)
            await player.stdin.drain()


async def _record(server: SoundServer, recorder: asyncio.subprocess.Process) -> None:
    assert recorder.stdout is not None
    while data := await recorder.stdout.read(4096):
        server.recorded += data


@contextlib.asynccontextmanager
async def _process(*command: str, extra: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **extra},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        if child.stdin is not None:
            child.stdin.close()
