"""Programs that tests run: to their end, or told by lines, held, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from typing_extensions import Self

_END = 30.0


def finished(
    words: Sequence[object], *, check: bool = False, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, and capture what it prints."""
    how = {"capture_output": True, "text": True, "timeout": 200, **how}
    answer: subprocess.CompletedProcess[str] = subprocess.run(
        [*map(str, words)], check=check, **how
    )
    return answer


class Program:
    """A program in a process group of its own, told by lines; it ends with the block."""

    def __init__(self, words: Sequence[object], **how: Any) -> None:
        pipe = subprocess.PIPE
        how = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "start_new_session": True, **how}
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [*map(str, words)], text=True, **how
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._heard = threading.Condition()
        self._ears = [
            threading.Thread(target=self._hear, args=pair)
            for pair in ((self._process.stdout, self.lines), (self._process.stderr, self.errors))
        ]
        for ear in self._ears:
            ear.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, line: str) -> None:
        """Give it a line; it may stand still, and read it later."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def await_line(
        self, start: str | tuple[str, ...], seconds: float = 30.0, *, after: int = 0
    ) -> str:
        """Wait for a line that begins so, from line number `after` on, and return it."""
        found: list[str] = []

        def there() -> bool:
            found[:] = [line for line in self.lines[after:] if line.startswith(start)]
            return bool(found)

        self.await_that(there, seconds, str(start))
        return found[0]

    def await_that(self, what: Callable[[], bool], seconds: float, name: str = "") -> None:
        """Wait until something holds, which is asked again at every line and now and then."""
        deadline = time.monotonic() + seconds
        with self._heard:
            while not what():
                left = deadline - time.monotonic()
                assert left > 0, (
                    f"no {name!r}: {self.lines[-20:]} {self.errors[-20:]} {self.family()}"
                )
                self._heard.wait(min(left, 0.1))

    def freeze(self) -> None:
        """Hold the whole process group, and return when it stands."""
        os.killpg(self.pid, signal.SIGSTOP)
        self.await_that(self.frozen, 10.0, "standstill")

    def frozen(self) -> bool:
        """Whether all processes of the group that have not ended stand still."""
        try:
            states = {process.status() for process in self.family()}
        except psutil.NoSuchProcess:  # it ended while it was asked: so not all of them stand
            return False
        stopped, ended = psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE
        return stopped in states and states <= {stopped, ended}

    def await_text(self, text: str, seconds: float = 60.0) -> None:
        """Wait until a line that it has printed, wherever, has this in it."""
        self.await_that(lambda: text in "\n".join([*self.lines, *self.errors]), seconds, text)

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def ending(self, number: int | None = None, seconds: float = 60.0) -> tuple[int, str]:
        """Wait until it has ended, by this signal if any: its code, and its errors since then."""
        before = len(self.errors)
        if number is not None:
            self.send_signal(number)
        code = self.wait(seconds)
        for ear in self._ears:
            ear.join(10)
        return code, "\n".join(self.errors[before:])

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def family(self) -> list[psutil.Process]:
        try:
            own = psutil.Process(self.pid)
            below = own.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [process for process in (own, *below) if _group(process) == self.pid]

    def end(self, seconds: float = _END) -> int:
        """Close its input, wait until it has ended by itself, and return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(seconds)

    def wait(self, seconds: float) -> int:
        """Wait until it has ended, and return its exit code: below 0 for a signal."""
        return self._process.wait(seconds)

    def code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """End all of it at once (SIGKILL); does nothing when it has ended."""
        for process in self.family():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue  # ended by itself
        self._process.wait(_END)
        for ear in self._ears:
            ear.join(_END)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # a last line it will never read
                    stream.close()

    def _hear(self, stream: object, into: list[str]) -> None:
        for line in stream:  # type: ignore[attr-defined]  # a pipe in text mode
            with self._heard:
                into.append(line.rstrip("\n"))
                self._heard.notify_all()


def _group(process: psutil.Process) -> int | None:
    """The process group; None for a process that has ended meanwhile."""
    try:
        return os.getpgid(process.pid) if process.is_running() else None
    except ProcessLookupError:
        return None
