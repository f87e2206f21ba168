"""The output of a running demo: a live picture on a terminal, else a line now and then."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from eo_listener.model.lag import PartitionLag
from examples.demo.producer import Replay
from examples.demo.store import GROUP, Store
from tests.broker import GroupRow

_EVERY: Final = 3.0  # seconds between two plain lines of one step
_QUICKEST: Final = 1.0  # seconds between two lines at all: a download has many steps
_INTRODUCTION: Final = f"""\
Real flights of 2013 are sent to a real Kafka, and a Spark query reads them.
Spark keeps to itself how far it has read, so Kafka's tools see nothing of it.
eo-listener commits each batch to the consumer group {GROUP}: now they see it.
At the end kafka-consumer-groups, which is Kafka's own, has the last word."""


@dataclass
class Progress:
    """How far the demo is; each field has one writer.

    `wanted` is how many flights will be produced, `counted` how many have come out of the query.
    `partitions` is what our reader sees, `tool_rows` what kafka-consumer-groups said at `tool_at`.
    """

    wanted: int
    store: Store | None = None
    step: str = "starting Kafka"
    note: str = ""
    replay: Replay | None = None
    counted: int = 0
    commits: int = 0
    partitions: Sequence[PartitionLag] = ()
    tool_rows: Sequence[GroupRow] = ()
    tool_at: float | None = None
    begun: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begun

    @property
    def produced(self) -> int:
        """The flights that Kafka has acknowledged."""
        return self.replay.produced if self.replay else 0

    @property
    def committed(self) -> int:
        """The sum of the committed offsets: each log starts at 0, so this counts flights."""
        return sum(row.committed or 0 for row in self.partitions)

    @property
    def lag(self) -> int | None:
        """Flights in Kafka that the group has not reached; None while nothing is known."""
        if not self.partitions:
            return None
        return sum((row.log_end or 0) - (row.committed or 0) for row in self.partitions)

    def say(self, step: str) -> None:
        """Name what is going on now."""
        self.step = step

    def line(self) -> str:
        """Say all of it in one line of plain text."""
        text = f"{self.elapsed:5.0f} s  {self._step}"
        if self.produced:
            text += f": {self.produced:,} of {self.wanted:,} produced, {self.counted:,} {self._in}"
            text += f", {self.committed:,} committed"
        return text if self.lag is None else f"{text}, lag {self.lag:,}"

    def picture(self) -> RenderableType:
        """Draw all of it."""
        parts: list[RenderableType] = [self._title(), Text(), self._bars(), Text()]
        if not self.partitions:
            return Group(*parts, Text(_INTRODUCTION))
        tool_rows = {row.partition: row for row in self.tool_rows}
        own_table = _offsets(
            f"eo-listener, now ({self.commits:,} commits)",
            ("committed", "log end", "lag"),
            [(row.committed, row.log_end, row.lag) for row in self.partitions],
        )
        asked = "not asked yet" if self.tool_at is None else self._ago(self.tool_at)
        tool = _offsets(
            f"kafka-consumer-groups, {asked}",
            ("CURRENT", "LOG-END", "LAG"),
            [
                (row.current_offset, row.log_end_offset, row.lag) if row else (None, None, None)
                for number in range(len(self.partitions))
                for row in (tool_rows.get(number),)
            ],
        )
        halves = Table.grid(padding=(0, 4), expand=True)
        halves.add_column(ratio=1)
        halves.add_column(ratio=1)
        halves.add_row(own_table, tool)
        return Group(*parts, halves)

    @property
    def _step(self) -> str:
        return f"{self.step} ({self.note})" if self.note else self.step

    @property
    def _in(self) -> str:
        if self.store is None:
            return "counted by the query"
        return f"rows in {'the topic' if self.store is Store.KAFKA else 'the table'}"

    def _ago(self, at: float) -> str:
        return f"{time.monotonic() - at:.0f} s ago"

    def _title(self) -> RenderableType:
        head = Table.grid(padding=(0, 1, 0, 0), expand=True)
        head.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        head.add_column(justify="right", no_wrap=True)
        title = "eo-listener commits to Kafka how far Spark has read"
        if self.store is not None:
            title = f"eo-listener writes each flight exactly once into {self.store.value}"
        head.add_row(Text(title, style="bold"), Text(f"{self.elapsed:.0f} s", style="bold"))
        sign = "|/-\\"[int(self.elapsed * 4) % 4]
        head.add_row(
            Text(f"{sign} {self._step}", style="cyan"), Text("Ctrl-C ends all of it", style="dim")
        )
        return head

    def _bars(self) -> RenderableType:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
        for name, done, colour, meaning in (
            ("produced", self.produced, "blue", f"of {self.wanted:,} flights sent"),
            ("processed", self.counted, "magenta", self._in),
            ("committed", self.committed, "green", f"by group {GROUP}"),
        ):
            bar = ProgressBar(
                total=self.wanted, completed=done, complete_style=colour, finished_style=colour
            )
            table.add_row(Text(name, style=f"bold {colour}"), bar, f"{done:,}", meaning)
        return table


def _offsets(
    title: str,
    names: tuple[str, ...],
    rows: Sequence[tuple[int | None, int | None, int | None]],
) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=True)
    for name in ("partition", *names):
        table.add_column(name, justify="right", no_wrap=True)
    for number, (current, end, lag) in enumerate(rows):
        colour = "dim" if lag is None else "green" if lag == 0 else "yellow"
        table.add_row(str(number), number_of(current), number_of(end), Text(number_of(lag), colour))
    return Group(Text(title, style="bold"), table)


def number_of(count: int | None) -> str:
    """Return a count as it is shown."""
    return "-" if count is None else f"{count:,}"


@contextlib.contextmanager
def shown(stream: TextIO, progress: Progress) -> Iterator[None]:
    """Show the progress for as long as the context lasts."""
    with _pictures(stream, progress) if stream.isatty() else _lines(stream, progress):
        yield


@contextlib.contextmanager
def _pictures(stream: TextIO, progress: Progress) -> Iterator[None]:
    columns, lines = os.get_terminal_size(stream.fileno())
    console = Console(file=stream, highlight=False, markup=False, width=columns, height=lines)
    with Live(console=console, get_renderable=progress.picture, refresh_per_second=5):
        yield


@contextlib.contextmanager
def _lines(stream: TextIO, progress: Progress) -> Iterator[None]:
    stopping = threading.Event()

    def run() -> None:
        step, at = "", float("-inf")
        while not stopping.wait(0.1):
            since = time.monotonic() - at
            if since >= _EVERY or (progress.step != step and since >= _QUICKEST):
                print(progress.line(), file=stream, flush=True)
                step, at = progress.step, time.monotonic()

    thread = threading.Thread(target=run, name="demo-lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(5)
        print(progress.line(), file=stream, flush=True)
