"""A browser without a screen: Debian's chromium, or EO_TEST_CHROMIUM, by the DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.waiting import until

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ANSWER: Final = 60.0  # seconds, on a busy machine
_OPTIONS: Final = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--font-render-hinting=none",
)


def program() -> str | None:
    named = os.environ.get("EO_TEST_CHROMIUM")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


class Page:
    """One page, as wide as a phone."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def value(self, expression: str) -> Any:
        """What JavaScript makes of it, where that is a plain value."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 60.0) -> None:
        until(lambda: self.value(expression), seconds, expression)

    def picture(self, *, longest: int) -> bytes:
        """Return it from its top, as PNG: the whole, or so many pixels of CSS."""
        size = "[document.documentElement.clientWidth, document.documentElement.scrollHeight]"
        width, height = self.value(size)
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, longest), "scale": 1}
        answer = self._ask(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )
        return base64.b64decode(answer["data"])

    def show(self, url: str, *, width: int, height: int, scale: float) -> None:
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=True,
        )
        self._ask("Page.navigate", url=url)
        self.until(f"location.href == {json.dumps(url)} && document.readyState == 'complete'")

    def _ask(self, method: str, **parameters: Any) -> Any:
        return self._browser.ask(method, parameters, session=self._session)


class Browser:
    """Sends requests, and waits for the answer to each."""

    def __init__(self, to: int, of: int) -> None:
        self._to, self._of = to, of
        self._rest = b""
        self._number = 0

    def open(self, url: str, *, width: int, height: int = 844, scale: float = 1.0) -> Page:
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        found = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self, found["sessionId"])
        page.show(url, width=width, height=height, scale=scale)
        return page

    def ask(self, method: str, parameters: dict[str, Any], *, session: str | None = None) -> Any:
        """Return the result. Raises AssertionError for an error."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._next())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> bytes:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._of], [], [], _ANSWER)
            assert ready, "the browser does not answer"
            more = os.read(self._of, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        found, _, self._rest = self._rest.partition(b"\0")
        return found


@contextlib.contextmanager
def chromium(path: str) -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(prefix="eo-browser-", ignore_cleanup_errors=True) as folder:
        read, write = map(_above, os.pipe())
        answers, answered = map(_above, os.pipe())
        sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
        log = _above(os.open(Path(folder) / "log", os.O_WRONLY | os.O_CREAT))
        process = os.posix_spawn(
            path,
            [path, *_OPTIONS, *sandbox, f"--user-data-dir={folder}/profile", "about:blank"],
            {**os.environ, "HOME": folder},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read, 3),
                (os.POSIX_SPAWN_DUP2, answered, 4),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setpgroup=0,
        )
        for one in (read, answered, log):
            os.close(one)
        try:
            yield Browser(write, answers)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(write)
            os.close(answers)


def _above(descriptor: int) -> int:
    """The same with a number above those that the browser is given."""
    made = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return made
