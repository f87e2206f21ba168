"""What is found out of executors, without any: a session that sends its tasks to itself."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pyspark import cloudpickle

from eo_listener.sinks.postgres import PostgresSink, executor_check
from eo_listener.sinks.postgres.executor_check import Obstacle, prove
from eo_listener.sinks.postgres.transaction import TransactionWriter
from eo_listener.sinks.postgres.write_methods import Choice, Proved

OURS = ("me", "db", 7)


class Tasks:
    """Stands in for an RDD: sends the work as Spark does, and runs it in place."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure

    def mapPartitions(self, work: Callable[..., Iterable[Any]]) -> Tasks:  # noqa: N802  # Spark's
        self.sent = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]  # pyspark's own
        return self

    def collect(self) -> list[Any]:
        if self.failure is not None:
            raise self.failure
        return list(pickle.loads(self.sent)(range(1)))  # noqa: S301  # of a line above


class Link:
    """Stands in for a connection that answers as many connections as are free."""

    def __init__(self, free: int = 99, error: psycopg.Error | None = None) -> None:
        self.free = free
        self.error = error

    def execute(self, text: str, _: object = ()) -> Any:
        if self.error is not None:
            raise self.error
        row = {executor_check._LIMITS: (self.free, None, None), executor_check._OURS: OURS}.get(
            text, (True,)
        )
        return SimpleNamespace(fetchone=lambda: row)


class Vault:
    """What gives a dsn, or is applied, and holds a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def dsn(self) -> str:
        return "host=h password=s3cret"

    def apply(self, connection: object, entry: object) -> None:
        pass


def writer_of(dsn: Any = "host=h", **more: Any) -> TransactionWriter:
    return PostgresSink(dsn, "t", schema="public", **more)._writer("q")


def tried(
    writer: TransactionWriter,
    *,
    link: Link | None = None,
    failure: Exception | None = None,
    **how: Any,
) -> Proved:
    context = SimpleNamespace(defaultParallelism=2, parallelize=lambda *_: Tasks(failure))
    given: dict[str, Any] = {
        "write_method": "auto",
        "atomicity": "batch",
        "rows": 1,
        "connections": None,
    }
    session: Any = SimpleNamespace(sparkContext=context)
    asked: Any = link or Link()
    return prove(session, writer, asked, Choice.of(**given | how))


@pytest.fixture(autouse=True)
def reached(monkeypatch: pytest.MonkeyPatch) -> list[TransactionWriter]:
    """Every task reaches the server; what it was sent."""
    seen: list[TransactionWriter] = []

    def reach(writer: TransactionWriter, ours: object) -> Obstacle | None:
        assert ours == OURS
        seen.append(writer)
        return None

    monkeypatch.setattr(executor_check, "reach", reach)
    return seen


def test_nothing_speaks_against_them(reached: list[TransactionWriter]) -> None:
    """Executors that have all they need write; apply= is sent to them only where tasks run it."""
    writer = writer_of(apply=print)
    assert tried(writer) == Proved()
    assert tried(writer, atomicity="partition") == Proved()
    assert [one.target.apply for one in reached] == [None, print]
    assert tried(writer_of(apply=Vault().apply)) == Proved()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('x\njava.io.IOException: Cannot run program "/no/python": error=2\n\tat y', "Cannot run"),
        ("x\nRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker\n at", "[PYTHON_VERSION_MI"),
        ("An error\n: y: Job aborted: most recent failure: Lost task\n", "RuntimeError: : y: Job"),
        ("", "RuntimeError"),
    ],
)
def test_a_job_that_fails_is_an_answer(text: str, said: str) -> None:
    """A failed trial job keeps the executors from writing, fails no batch, and is tried again."""
    found = tried(writer_of(), failure=RuntimeError(text))
    assert found.passing
    assert f": {said}" in str(found.executors)


@pytest.mark.parametrize("write_method", ["auto", "staging"])
def test_a_dsn_function_that_cannot_be_sent_is_an_answer(write_method: str) -> None:
    """It says which, and not what pickle says of it."""
    found = tried(writer_of(Vault().dsn), write_method=write_method)
    assert str(found.executors).startswith("the function of dsn= cannot be sent to them (TypeError")
    assert not found.passing


def test_an_apply_that_cannot_be_sent_is_an_answer() -> None:
    """Where tasks would run a function of apply= that cannot be pickled, they do not write."""
    found = tried(writer_of(apply=Vault().apply), atomicity="partition")
    assert str(found.executors).startswith("the function of apply= cannot be sent")


class Unloadable:
    """Can be sent, but not loaded there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("s3cret",)

    def __call__(self) -> str:
        return ""


def test_what_cannot_be_loaded_there_is_an_answer() -> None:
    """An error while a task is loaded is reported by its class alone."""
    found = str(tried(writer_of(Unloadable())).executors)
    assert "dsn= or apply=" in found
    assert found.endswith(": ValueError)")


def test_too_few_connections_may_pass() -> None:
    """Nobody is sent anything then."""
    assert tried(writer_of(), link=Link(2)).passing
    assert tried(writer_of(), link=Link(2), connections=1) == Proved()


def test_what_the_driver_s_connection_says() -> None:
    """A lost one is not the executors' matter; what the server refuses to tell is."""
    refused = Link(error=psycopg.errors.UndefinedTable("no pg_roles"))
    assert "no pg_roles" in str(tried(writer_of(), link=refused).executors)
    with pytest.raises(psycopg.OperationalError):
        tried(writer_of(), link=Link(error=psycopg.OperationalError("gone")))


def test_a_missing_module_is_named_by_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the module and the executor's machine."""
    monkeypatch.setattr(executor_check, "NEEDED", ("eo_no_such_module",))
    found = tried(writer_of())
    assert str(found.executors).startswith("their Python lacks eo_no_such_module (")
    assert not found.passing
