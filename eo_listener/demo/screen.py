"""Where the demo shows how it goes: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from rich.console import Console
from rich.live import Live

from eo_listener.demo import view
from eo_listener.demo.snapshot import Snapshot

_EVERY: Final = 3.0  # seconds between two plain lines of one stage
_QUICKEST: Final = 1.0  # seconds between two lines at all: a download has many stages
_FRAMES: Final = 5  # pictures a second


@contextlib.contextmanager
def shown(stream: TextIO, now: Callable[[], Snapshot]) -> Iterator[None]:
    """Show what `now` returns for as long as the context lasts.

    Writes to a copy of the stream's descriptor: the query turns the first two away while Spark
    starts.
    """
    stream.flush()
    with (
        os.fdopen(os.dup(stream.fileno()), "w", encoding="utf-8") as copy,
        _pictures(copy, now) if copy.isatty() else _lines(copy, now),
    ):
        yield


@contextlib.contextmanager
def _pictures(stream: TextIO, now: Callable[[], Snapshot]) -> Iterator[None]:
    console = Console(file=stream, highlight=False)
    with Live(
        console=console,
        get_renderable=lambda: view.picture(now(), console.height),
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
            if since >= _EVERY or (snapshot.stage != said and since >= _QUICKEST):
                print(view.line(snapshot), file=stream, flush=True)
                said, at = snapshot.stage, time.monotonic()

    thread = threading.Thread(target=run, name="demo-lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(5)
        print(view.line(now()), file=stream, flush=True)
