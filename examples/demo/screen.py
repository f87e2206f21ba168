"""Where the demo shows how it goes: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.live import Live

from examples.demo import picture
from examples.demo.snapshot import Snapshot

_EVERY: Final = 3.0  # seconds between two plain lines of one step
_QUICKEST: Final = 1.0  # seconds between two lines at all: a download has many steps
_FRAMES: Final = 5  # pictures a second


@contextlib.contextmanager
def shown(stream: TextIO, now: Callable[[], Snapshot]) -> Iterator[None]:
    """Show what `now` returns for as long as the context lasts.

    It has a copy of the stream's descriptor, so that `output_to` does not turn it away too.
    """
    stream.flush()
    with (
        os.fdopen(os.dup(stream.fileno()), "w", encoding="utf-8") as copy,
        _pictures(copy, now) if copy.isatty() else _lines(copy, now),
    ):
        yield


@contextlib.contextmanager
def output_to(file: Path) -> Iterator[None]:
    """Turn all that is written to stdout and stderr into `file`.

    On the level of descriptors, because of what Spark's JVM, librdkafka and the JVM's launcher
    print past Python: one line of theirs would tear a live picture apart.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        with file.open("ab") as log:
            for number in kept:
                os.dup2(log.fileno(), number)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


@contextlib.contextmanager
def _pictures(stream: TextIO, now: Callable[[], Snapshot]) -> Iterator[None]:
    console = Console(file=stream, highlight=False, markup=False)

    def frame() -> RenderableType:
        # Not the descriptors that rich would ask for the size: these may be turned away.
        columns, lines = os.get_terminal_size(stream.fileno())
        console.size = ConsoleDimensions(columns, lines)
        return picture.draw(now(), lines)

    with Live(
        console=console,
        get_renderable=frame,
        refresh_per_second=_FRAMES,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield


@contextlib.contextmanager
def _lines(stream: TextIO, now: Callable[[], Snapshot]) -> Iterator[None]:
    stopping = threading.Event()

    def run() -> None:
        said, at = "", float("-inf")
        while not stopping.wait(0.1):
            snapshot, since = now(), time.monotonic() - at
            if since >= _EVERY or (snapshot.step != said and since >= _QUICKEST):
                print(picture.line(snapshot), file=stream, flush=True)
                said, at = snapshot.step, time.monotonic()

    thread = threading.Thread(target=run, name="demo-lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(5)
        print(picture.line(now()), file=stream, flush=True)
