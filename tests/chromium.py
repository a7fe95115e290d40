"""Chromium without a window, steered through its DevTools protocol: for tests and for pictures.

The protocol goes through a pair of pipes, so no package is needed for it.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WHY_NONE = f"needs a browser: none of {', '.join(NAMES)} is on the PATH"
REPORT_READY = "document.documentElement?.dataset.ready === 'yes'"
LOADED = "document.readyState === 'complete'"
"""What ``open`` waits for: a report says when its charts are drawn; any other page is loaded."""
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find() -> str | None:
    """Where the browser is; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """A browser with one page.

    Attributes
    ----------
    errors: of the page's console, and exceptions.
    requests: addresses that the page asked for.
    """

    def __init__(self, *, seconds: float = 60.0) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._unread = b""
        self._session = ""

    def __enter__(self) -> Self:
        path = find()
        assert path is not None, WHY_NONE
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # Above 10, so that neither is in the way when the browser's become 3 and 4.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
        os.close(to_browser)
        os.close(from_browser)
        self._process = subprocess.Popen(
            [path, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            preexec_fn=lambda: [os.dup2(end, number) for number, end in enumerate(ends, 3)],
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._session = ""
            self._send("Browser.close", {})
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    # -- what a page does ------------------------------------------------------------------------

    def open(
        self,
        path: Path,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        ready: str = REPORT_READY,
    ) -> None:
        """Open a file in a window of a size; return when ``ready`` is true in the page."""
        self.resize(width, height)
        self.color(dark=dark)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for(ready)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """Give the window another size; ``scale`` is the number of pixels of a unit."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def color(self, *, dark: bool) -> None:
        """Prefer dark or light colours, as a system does."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript; of a promise, what it resolves to."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Return when an expression is true; AssertionError where it does not become so."""
        end = time.monotonic() + self._seconds
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < end, f"not true within {self._seconds} s: {expression}"
            time.sleep(0.02)

    def press_enter(self) -> None:
        """Press the key where the focus is."""
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        self.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def picture(self, selector: str = "html", margin: int = 0) -> bytes:
        """An element as a PNG."""
        place = self.evaluate(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect();"
            " return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}; })()"
        )
        clip = {
            "x": place["x"] - margin,
            "y": place["y"] - margin,
            "width": place["width"] + 2 * margin,
            "height": place["height"] + 2 * margin,
            "scale": 1,
        }
        answer = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def screen(self) -> bytes:
        """What the window shows as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def pdf(self) -> bytes:
        """The page on paper."""
        answer = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])

    # -- the protocol ----------------------------------------------------------------------------

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        number = self._send(method, parameters)
        end = time.monotonic() + self._seconds
        while True:
            message = self._receive(end, method)
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        return number

    def _receive(self, end: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{method}: no answer within {self._seconds} s"
            part = os.read(self._in, 1 << 20)
            assert part, f"{method}: the browser ended"
            self._unread += part
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, found: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            details = found["exceptionDetails"]
            self.errors.append(str(details.get("exception", details).get("description", details)))
        elif event == "Runtime.consoleAPICalled" and found["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(one.get("value", one)) for one in found["args"]))
        elif event == "Log.entryAdded" and found["entry"]["level"] == "error":
            self.errors.append(found["entry"]["text"])
