"""A server that is away for a while, as steps of a batch see it: waited for, and written once."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping

import psycopg
import pytest

from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter, Written
from eo_listener.model.errors import RetriableSinkError, SinkError
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.offsets import TopicPartition
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY, plan_of
from tests.postgres_server import PostgresServer, running, with_schema
from tests.sinks.postgres import bare
from tests.sinks.postgres.course import another_role, ask, at, next_entry, script

IDS = f"SELECT id FROM {bare.TABLE} ORDER BY id"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server to be stopped; each test leaves it running."""
    with running() as one:
        yield one


@pytest.fixture
def own(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """A way into a schema of the test's own on that server."""
    return with_schema(server.dsn(), re.sub(r"\W", "_", request.node.name)[-60:].lower())


class WriterOnly:
    """The sink's own writing, without Spark, as steps call it."""

    per_partition = False

    def __init__(self, sink: PostgresSink) -> None:
        self.sink = sink
        self.label, self.key = sink.label, sink.key

    def applied(self, query: str) -> dict[TopicPartition, Head]:
        return dict(self.sink.applied(query))

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        return self.sink.moved_by(query_id)

    def apply(self, frame: object, entry: Entry, plan: PlannedBatch) -> Applied:
        return bare.write(self.sink, entry)

    def close(self) -> None:
        self.sink.close()


@contextlib.contextmanager
def course(dsn: str, *acts: Callable[[], object]) -> Iterator[tuple[WriterOnly, SinkWriter]]:
    """A sink, and the steps that write into it; each wait of theirs does the next of `acts`."""
    due = list(acts)

    def sleep(seconds: float) -> None:
        if due:
            due.pop(0)()
        time.sleep(min(seconds, 0.2))

    with contextlib.closing(PostgresSink(dsn, bare.TABLE)) as sink:
        yield WriterOnly(sink), SinkWriter(RetryLimits(timeout=120), sleep, time.monotonic)
    assert not due


def write(sink: WriterOnly, steps: SinkWriter, entry: Entry) -> Written:
    return steps.write(sink, None, entry, plan_of(entry))


def halt(server: PostgresServer) -> None:
    """Stop the server as `pg_ctl stop -m fast` does."""
    server.process.send_signal(signal.SIGINT)
    server.process.wait(60)


@pytest.mark.parametrize(
    "point", ["sink.begun", "sink.copying", "sink.rows-written", "sink.ledger-moved"]
)
def test_a_backend_that_is_ended_in_a_batch(dsn: str, point: str) -> None:
    """The batch is repeated on a new connection, and is there once."""
    with course(dsn) as (sink, steps):
        write(sink, steps, next_entry(sink))

        def end() -> None:
            assert sink.sink._kept.link is not None
            script(dsn, f"SELECT pg_terminate_backend({sink.sink._kept.link.backend}, 10000)")

        entry = next_entry(sink)
        with at({point: end}):
            assert write(sink, steps, entry).attempts == 2
        assert ask(dsn, IDS) == list(range(20))
        assert sink.applied(QUERY) == {tp: entry.head(tp) for tp in entry.moves}


@pytest.mark.parametrize("point", ["sink.begun", "sink.copying", "sink.ledger-moved"])
def test_a_server_that_is_restarted_in_a_batch(
    server: PostgresServer, own: str, point: str
) -> None:
    """Stopped in mid-batch and started while the steps wait: the batch follows, once."""
    with course(own, server.start) as (sink, steps):
        entry = next_entry(sink)
        with at({point: lambda: halt(server)}):
            assert write(sink, steps, entry).attempts == 2
        assert ask(own, IDS) == list(range(10))


def test_a_server_that_is_down_when_a_batch_begins(server: PostgresServer, own: str) -> None:
    """Refused connections, with a kept connection and without: the ledger is read when it is up."""
    with course(own, server.start, server.start) as (sink, steps):
        write(sink, steps, next_entry(sink))
        halt(server)
        heads = steps.read(sink, QUERY)
        assert [head.range.until for head in heads.values()] == [10]
        sink.close()
        halt(server)
        assert steps.read(sink, QUERY) == heads
        write(sink, steps, next_entry(sink))
        assert ask(own, IDS) == list(range(20))


def test_a_server_that_stays_away_is_named(server: PostgresServer, own: str) -> None:
    """When the time is over the query gets the last error, which says what could not be reached."""
    with course(own) as (sink, _):
        halt(server)
        steps = SinkWriter(RetryLimits(timeout=0.3), time.sleep, time.monotonic)
        with pytest.raises(RetriableSinkError, match=r"cannot be reached.*refused.*server is down"):
            steps.read(sink, QUERY)
        server.start()
        assert steps.read(sink, QUERY) == {}


def test_no_free_connection_for_a_while(dsn: str) -> None:
    """A role that has used up its connections is waited for, and the error says that they are."""
    grant = "GRANT ALL ON SCHEMA {schema} TO {role}"
    with another_role(dsn, grant, options="CONNECTION LIMIT 1") as lonely:
        other = psycopg.connect(lonely)
        with course(lonely, other.close) as (sink, steps):
            with pytest.raises(
                RetriableSinkError, match=r"too many connections.*no free connection"
            ):
                sink.applied(QUERY)
            assert steps.read(sink, QUERY) == {}


def test_a_standby_is_neither_read_nor_written(server: PostgresServer, own: str) -> None:
    """After a failover the ledger is not taken from a standby; once it is promoted all goes on."""

    def promote() -> None:
        with psycopg.connect(server.dsn(), autocommit=True) as link:
            link.execute("SELECT pg_promote()")

    with course(own, promote) as (sink, steps):
        write(sink, steps, next_entry(sink))
        halt(server)
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        with pytest.raises(RetriableSinkError, match=r"is a standby.*failover"):
            sink.applied(QUERY)
        assert [head.range.until for head in steps.read(sink, QUERY).values()] == [10]
        write(sink, steps, next_entry(sink))
        assert ask(own, IDS) == list(range(20))


def test_a_connection_that_only_reads_is_not_kept(dsn: str) -> None:
    """What a server says that has become read-only ends the connection: the next finds another."""
    with course(dsn) as (sink, _):
        entry = next_entry(sink)

        def demote() -> None:
            assert sink.sink._kept.link is not None
            sink.sink._kept.link.execute("SET TRANSACTION READ ONLY")

        with (
            at({"sink.begun": demote}),
            pytest.raises(RetriableSinkError, match="standby, or read"),
        ):
            bare.write(sink.sink, entry)
        assert sink.sink._kept.link is not None
        assert sink.sink._kept.link.closed
        assert bare.write(sink.sink, entry).rows == 10


def test_a_wrong_password_is_not_repeated(dsn: str) -> None:
    """What waiting does not cure goes up at once."""
    wrong = dsn.replace("postgres@", "nobody_at_all@", 1)
    with course(wrong) as (sink, steps):
        begun = time.monotonic()
        with pytest.raises(SinkError, match="does not exist") as failed:
            steps.read(sink, QUERY)
        assert not isinstance(failed.value, RetriableSinkError)
        assert time.monotonic() - begun < 60
