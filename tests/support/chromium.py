"""A headless Chromium, driven over its DevTools protocol: it opens a page, clicks, presses keys, and listens."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
START_S = 30
ANSWER_S = 20
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # CI is root, where the sandbox refuses to start; only our own page is opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    "--mute-audio",
    "--force-prefers-reduced-motion",  # what scrolls smoothly is not yet where it will be clicked
    "--autoplay-policy=no-user-gesture-required",
    "--remote-debugging-port=0",
    "--window-size=1200,900",
)
_KEYS = {" ": ("Space", 32), "ArrowLeft": ("ArrowLeft", 37), "ArrowRight": ("ArrowRight", 39), "Home": ("Home", 36)}

# Where an element is, once it is in view and has not moved from one frame to the next.
_SETTLED = """async (selector) => {
  const node = document.querySelector(selector);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const place = () => {
    const { left, top, width, height } = node.getBoundingClientRect();
    return { left, top, width, height };
  };
  for (let before = null; ; ) {
    node.scrollIntoView({ block: "center", behavior: "instant" });
    await frame();
    const now = place();
    if (before && JSON.stringify(before) === JSON.stringify(now)) return now;
    before = now;
  }
}"""


def executable() -> str:
    """Where Chromium is. Skips the test where there is none; in CI, which installs it, that is a failure."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return found
    missing = "no Chromium here; on Debian: apt-get install chromium"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


class Page:
    """One tab. complaints: console errors and warnings, exceptions, refused resources, in order."""

    def __init__(self, wire: ClientConnection) -> None:
        self._wire = wire
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session = ""
        self._loaded = asyncio.Event()
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Take messages until the browser is gone."""
        async for text in self._wire:
            message = json.loads(text)
            if waiting := self._answers.pop(message.get("id", 0), None):
                waiting.set_result(message)
            else:
                self._take(message.get("method", ""), message.get("params", {}))

    def _take(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._answers[number] = asyncio.get_running_loop().create_future()
        session = {"sessionId": self._session} if self._session else {}
        await self._wire.send(json.dumps({"id": number, "method": method, "params": params, **session}))
        answer = await asyncio.wait_for(self._answers[number], ANSWER_S)
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    async def attach(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def open(self, file: Path) -> None:
        """Open a file (an absolute path) and wait until all of it has run."""
        self._loaded.clear()
        await self.call("Page.navigate", url=file.as_uri())
        await asyncio.wait_for(self._loaded.wait(), ANSWER_S)

    async def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, script: str) -> Any:
        """Ask until the expression is true, and give its value."""
        async with asyncio.timeout(ANSWER_S):
            while not (value := await self.run(script)):
                await asyncio.sleep(0.05)
        return value

    async def click(self, selector: str, along: float = 0.5) -> None:
        """Press the mouse on an element's middle. along: where across it, 0 left, 1 right."""
        box = await self.run(f"({_SETTLED})({json.dumps(selector)})")
        x, y = box["left"] + along * box["width"], box["top"] + box["height"] / 2
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def press(self, key: str) -> None:
        code, number = _KEYS[key]
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number, **text
            )


@contextlib.asynccontextmanager
async def page(profile: Path) -> AsyncIterator[Page]:
    """A tab in a browser of its own. profile: an empty folder for it."""
    program = executable()
    browser = await asyncio.create_subprocess_exec(
        program,
        *FLAGS,
        f"--user-data-dir={profile}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with connect(await _address(profile, browser), max_size=None, compression=None) as wire:
            tab = Page(wire)
            listening = asyncio.create_task(tab.listen())
            try:
                await tab.attach()
                yield tab
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
    finally:
        with contextlib.suppress(ProcessLookupError):
            browser.terminate()
        await browser.wait()


async def _address(profile: Path, browser: asyncio.subprocess.Process) -> str:
    """Chromium writes the port that it took, and the path of its socket, into its profile."""
    file = profile / "DevToolsActivePort"
    async with asyncio.timeout(START_S):
        while not (file.exists() and file.read_text().count("\n") >= 1):
            assert browser.returncode is None, f"Chromium ended with {browser.returncode} at its start"
            await asyncio.sleep(0.05)
    port, path = file.read_text().splitlines()[:2]
    return f"ws://127.0.0.1:{port}{path}"
