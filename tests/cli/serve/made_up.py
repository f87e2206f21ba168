"""Groups that nobody has read, for tests of the page; hostile names among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.audit_reading import AuditReading, read_audit
from eo_listener.cli.serve.page_server import AllowedHosts, PageServer, respond
from eo_listener.cli.serve.watched import Moment, Watched
from eo_listener.errors import EoListenerError
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.lag import PartitionLag
from eo_listener.model.lag_window import LagVerdict
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import TopicPartition

SERVERS = "k:9092"
CLUSTER = ClusterCommands(servers=SERVERS)
NOW_MS = 1_764_000_000_000
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></textarea></style><svg onload=alert(1)>",
    "javascript:alert(1)//&lt;b&gt;",
    "\u202eexe.txt\u202c",
    "nul\x00 esc\x1b]0;owned\x07 line\u2028end",
    "half \ud800 of a character",
    "g" * 30_000,
)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> Moment:
        return Moment(1_764_000_000.0 + self.seconds, self.seconds)


class FakeReader:
    """Gives what a test has put into it; an error is raised."""

    def __init__(self, found: Sequence[GroupStatus] = ()) -> None:
        self.found: Sequence[GroupStatus] | EoListenerError = found

    def read(self) -> tuple[GroupStatus, ...]:
        if isinstance(self.found, EoListenerError):
            raise self.found
        return tuple(self.found)


class AuditHere:
    def __init__(self, request: AuditRequest) -> None:
        self._request = request

    def read(self) -> AuditReading:
        return read_audit(self._request)


def group(
    name: str = "g",
    offsets: Sequence[int | None] = (7,),
    *,
    end: int = 10,
    topic: str = "flights",
    query: str = "delays",
    verdict: LagVerdict | None = LagVerdict.OK,
    withheld: bool = False,
    **others: Any,
) -> GroupStatus:
    """A group that holds these offsets of a topic whose logs all end at `end`."""
    writer = CommitMetadata(
        name=query, query_id="q" * 36, run_id="r" * 36, batch_id=12, withheld=withheld
    )
    rows = tuple(
        PartitionLag(
            partition=TopicPartition(topic, number),
            committed=offset,
            log_end=end,
            writer=writer,
            stable_end=end,
            oldest_ms=NOW_MS - 5000,
        )
        for number, offset in enumerate(offsets)
    )
    verdicts = {row.partition: verdict for row in rows}
    return GroupStatus(group=name, rows=rows, now_ms=NOW_MS, verdicts=verdicts, **others)


def watched(
    found: Sequence[GroupStatus], clock: Clock | None = None, *, times: int = 1
) -> tuple[Watched, FakeReader, Clock]:
    """What is watched, after so many readings, 10 s after each other."""
    clock = clock or Clock()
    made = Watched(CLUSTER, every=10.0, audit_every=None, now=clock)
    reader = FakeReader(found)
    for number in range(times):
        clock.seconds += 10.0 if number else 0.0
        made.read_groups(reader)
    return made, reader, clock


@contextmanager
def served(made: Watched) -> Iterator[int]:
    """The port of a page of what is watched."""
    server = PageServer(
        "127.0.0.1", 0, lambda path: respond(made.view(), [], path), AllowedHosts("127.0.0.1")
    )
    server.start()
    try:
        yield server.port
    finally:
        server.stop()
