"""The write method of a batch: what was wanted, what its tasks read, and what was found out."""

from __future__ import annotations

import logging
import pickle
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from eo_listener.errors import SettingsError, SinkError
from eo_listener.model.ledger import Entry
from eo_listener.model.planned_batch import CountedSources
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres import PostgresSink, executor_check, method_choice
from eo_listener.sinks.postgres.executor_check import prove
from eo_listener.sinks.postgres.executor_tasks import NoConnectionError
from eo_listener.sinks.postgres.executor_writers import NoStagingError
from eo_listener.sinks.postgres.method_choice import ChosenMethod, MethodChoice
from eo_listener.sinks.postgres.transaction import TransactionWriter
from eo_listener.sinks.postgres.write_methods import (
    Choice,
    Proved,
    Ranges,
    WriteMethod,
    fit,
    missing,
    of_each_task,
)
from eo_listener.testing.made_up_entries import entry_of, plan_of

A, B, C = (TopicPartition("flights", number) for number in range(3))
SPANS = {A: OffsetRange(0, 5), B: OffsetRange(3, 4), C: OffsetRange(7, 7)}
READ: Ranges = ((B, OffsetRange(0, 4)), (A, OffsetRange(0, 5)))
WHOLE = entry_of({}, {A: OffsetRange(0, 5), B: OffsetRange(0, 4)})
REST = entry_of({}, {A: OffsetRange(0, 5)})
LARGE = entry_of({}, {A: OffsetRange(0, 5_000_000), B: OffsetRange(0, 4)})
WRITER: Any = SimpleNamespace(label="table delays")
LINK: Any = object()
DRIVER, STAGING, BY_TASKS = WriteMethod.DRIVER, WriteMethod.STAGING, WriteMethod.TASKS
NO_RANGES = SettingsError("a task reads several partitions", cause="a shuffle", fix="leave it out")


def choice(**given: Any) -> Choice:
    known = {"write_method": "auto", "atomicity": "batch", "rows": None, "connections": None}
    return Choice.from_arguments(**{**known, **given})


@pytest.mark.parametrize(
    ("given", "planned", "method"),
    [
        ({}, 4_999_999, DRIVER),
        ({}, 5_000_000, STAGING),
        ({"rows": 10}, 9, DRIVER),
        ({"rows": 10}, 10, STAGING),
        ({"write_method": "driver"}, 10**9, DRIVER),
        ({"write_method": "staging"}, 0, STAGING),
        ({"atomicity": "partition"}, 199_999, DRIVER),
        ({"atomicity": "partition"}, 200_000, BY_TASKS),
        ({"atomicity": "partition", "rows": 0}, 0, BY_TASKS),
    ],
)
def test_the_size_of_a_batch_and_the_user_choose(
    given: dict[str, Any], planned: int, method: WriteMethod
) -> None:
    """From so many planned rows on the executors write."""
    assert choice(**given).wants(planned) is method


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"write_method": "tasks"}, "got 'tasks'"),
        ({"atomicity": "row"}, "got 'row'"),
        ({"atomicity": "partition", "write_method": "driver"}, "cannot be combined"),
        ({"atomicity": "partition", "write_method": "staging"}, "cannot be combined"),
        ({"rows": -1}, "got -1"),
        ({"connections": 0}, "got 0"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    """Each by what was given, with what to write instead."""
    with pytest.raises(SettingsError, match=said) as refused:
        choice(**given)
    assert refused.value.fix


def entry(*partitions: TopicPartition) -> Entry:
    return entry_of({}, {tp: SPANS[tp] for tp in partitions})


def test_an_empty_range_is_not_missed() -> None:
    """A batch is there in part only where a partition with offsets has no move."""
    plan = plan_of(entry(A, B, C))
    assert not missing(plan, entry(A, B, C))
    assert not missing(plan, entry(A, B))
    assert missing(plan, entry(A, C))
    assert missing(plan, entry())


def test_tasks_fit_where_each_reads_all_of_one_partition() -> None:
    """Every partition with offsets has a task, with just these offsets, and no other has one."""
    plan = plan_of(entry(A, B, C))
    assert fit([(B, SPANS[B]), (A, SPANS[A])], plan)
    assert not fit([(A, SPANS[A])], plan)
    assert not fit([(A, SPANS[A]), (B, OffsetRange(3, 5))], plan)
    assert not fit([(A, SPANS[A]), (B, SPANS[B]), (C, OffsetRange(7, 8))], plan)
    assert fit([(A, SPANS[A]), (C, SPANS[C]), (B, SPANS[B])], plan)
    assert fit([], plan_of(entry(C)))
    beside = CountedSources(indices=(1,), plan_id="a", before=None)
    assert not fit([(A, SPANS[A]), (B, SPANS[B])], replace(plan, counted=beside))


def test_the_number_of_a_task_names_its_partition() -> None:
    """Tasks of partitions without a move have nothing to write."""
    ranges = [(B, SPANS[B]), (A, SPANS[A])]
    assert of_each_task(ranges, entry(A, C)) == {1: A}
    assert of_each_task(ranges, entry(A, B, C)) == {0: B, 1: A}


class Stage:
    """A choice with all that it asks; `asked` says what was tried on the executors."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        proved: Proved | None = None,
        read: Ranges | SettingsError = READ,
        conf: Mapping[str, str | None] | None = None,
        far: bool = False,
        **how: Any,
    ) -> None:
        self.asked: list[tuple[Any, ...]] = []
        session = SimpleNamespace(conf=conf or {})
        self.frame = SimpleNamespace(sparkSession=session, _jdf=None if far else object())
        self.proved = proved or Proved()
        self.choice = choice(**{"rows": 9, **how})
        self.choosing = MethodChoice(self.choice)

        def prove(*tried: Any) -> Proved:
            assert tried[0] is session
            self.asked.append(tried[1:])
            return self.proved

        def task_ranges(frame: Any) -> Ranges:
            assert frame is self.frame
            if isinstance(read, SettingsError):
                raise read
            return read

        patch.setattr(method_choice, "prove", prove)
        patch.setattr(method_choice, "task_ranges", task_ranges)

    def method(self, entry: Entry = WHOLE, planned: Entry = WHOLE) -> ChosenMethod:
        plan = plan_of(planned)
        return self.choosing.method(self.frame, entry, plan, writer=WRITER, link=LINK)


Made = Callable[..., Stage]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Made:
    return lambda **how: Stage(monkeypatch, **how)


TASKS = {"atomicity": "partition"}
SPECULATION = {"spark.speculation": "TRUE"}
OFF = {"spark.speculation": "false"}
UNSET = {"spark.speculation": None}
REREAD = TASKS | {"read": NO_RANGES}
NO_STAGING, NO_EXECUTORS = Proved(staging="none"), Proved(executors="none")


@pytest.mark.parametrize(
    ("how", "batch", "method", "ranges", "said"),
    [
        ({}, (WHOLE, WHOLE), STAGING, None, None),
        ({}, (REST, WHOLE), STAGING, None, None),  # one transaction, whatever is in it
        ({"rows": 10}, (WHOLE, WHOLE), DRIVER, None, None),
        (TASKS, (WHOLE, WHOLE), BY_TASKS, READ, None),
        (TASKS | {"conf": OFF}, (WHOLE, WHOLE), BY_TASKS, READ, None),
        (TASKS | {"conf": UNSET}, (WHOLE, WHOLE), BY_TASKS, READ, None),
        (TASKS | {"conf": SPECULATION}, (WHOLE, WHOLE), DRIVER, READ, "spark.speculation=true"),
        (TASKS | {"read": READ[:1]}, (WHOLE, WHOLE), DRIVER, None, "other offsets than"),
        (REREAD, (WHOLE, WHOLE), DRIVER, None, "partitions (a shuffle)"),
        (REREAD, (LARGE, LARGE), STAGING, None, "one transaction each"),
        (TASKS, (REST, WHOLE), BY_TASKS, READ, None),
        (TASKS | {"rows": 10}, (REST, WHOLE), DRIVER, READ, None),
        (TASKS | {"proved": NO_EXECUTORS}, (WHOLE, WHOLE), DRIVER, READ, ": none"),
        (TASKS | {"proved": NO_STAGING}, (WHOLE, WHOLE), BY_TASKS, READ, None),
        ({"proved": NO_STAGING}, (WHOLE, WHOLE), DRIVER, None, "delays: rows go"),
    ],
)
def test_what_keeps_a_batch_from_the_method_that_is_wanted(
    stage: Made,
    caplog: pytest.LogCaptureFixture,
    how: dict[str, Any],
    batch: tuple[Entry, Entry],
    method: WriteMethod,
    ranges: Ranges | None,
    said: str | None,
) -> None:
    """It is said once, however many batches follow, and the executors are tried once."""
    one = stage(**how)
    for _ in range(2):
        assert one.method(*batch) == (method, ranges)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (said is not None)
    assert said is None or said in lines[0]
    assert one.asked == [(WRITER, LINK, one.choice)]


def test_the_rest_of_a_large_batch_is_not_staged(stage: Made) -> None:
    """The table for staging takes all rows of a batch, where only some are to be written."""
    rest = entry_of({}, {A: OffsetRange(0, 5_000_000)})
    one = stage(
        **TASKS, read=((A, OffsetRange(0, 5_000_000)), (B, OffsetRange(0, 4))), conf=SPECULATION
    )
    assert one.method(rest, LARGE).method is DRIVER
    assert one.method(LARGE, LARGE).method is STAGING


@pytest.mark.parametrize("read", [NO_RANGES, READ[:1]])
def test_a_rest_that_is_unknown_is_refused(stage: Made, read: Any) -> None:
    """Rows that are there already would be written again."""
    with pytest.raises(SettingsError, match="the rest is unknown"):
        stage(**TASKS, read=read).method(REST)


@pytest.mark.parametrize(("write_method", "method"), [("driver", DRIVER), ("staging", STAGING)])
def test_a_write_method_of_the_user_s_is_taken_or_refused(
    stage: Made, write_method: str, method: WriteMethod
) -> None:
    """Nothing else is taken in its place, before or after it failed; the driver's tries nothing."""
    one = stage(write_method=write_method)
    assert one.method() == (method, None)
    assert len(one.asked) == (method is STAGING)
    assert not one.choosing.fall_back_to_driver(SinkError("no route"), "table delays")
    if method is STAGING:
        with pytest.raises(SettingsError, match="cannot be used: no right"):
            stage(write_method=write_method, proved=Proved(staging="no right")).method()


def test_a_frame_of_connect_goes_through_the_driver(
    stage: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """Its executors cannot be tried; as that is always so, it is no warning."""
    one = stage(far=True)
    assert one.method() == (DRIVER, None)
    assert (one.asked, caplog.records) == ([], [])
    with pytest.raises(SettingsError, match=r"write_method=.* Spark Connect"):
        stage(far=True, write_method="staging").method()


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("error", "tasks"), [(NoStagingError("no right"), BY_TASKS), (SinkError("away"), DRIVER)]
)
def test_what_failed_is_not_tried_again(
    stage: Made, caplog: pytest.LogCaptureFixture, error: SinkError, tasks: WriteMethod, first: bool
) -> None:
    """A right that is missing closes the staging table, anything else all methods of executors."""
    for how, method in (({}, DRIVER), (TASKS, tasks)):
        one = stage(**how)
        if not first:
            one.method()
        caplog.clear()
        assert one.choosing.fall_back_to_driver(error, "table delays")
        ((_, level, text), *_) = caplog.record_tuples
        assert level == logging.WARNING
        assert text.startswith("table delays: ")
        assert text.endswith(f": {error}")
        assert one.method().method is method


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(method_choice, "monotonic", lambda: now[0])
    return now


FEW = Proved(executors="2 connections are free", passing=True)


def test_what_may_pass_is_tried_again(
    stage: Made, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """With the next batch that executors would write, then after a minute, then after five."""
    one = stage(proved=FEW)
    assert one.method().method is DRIVER
    small = entry_of({}, {A: OffsetRange(0, 5)})
    assert one.method(small, small).method is DRIVER
    assert len(one.asked) == 1
    for pause, asked in ((0, 2), (59, 2), (2, 3), (299, 3)):
        clock[0] += pause
        assert one.method().method is DRIVER
        assert len(one.asked) == asked
    one.proved = Proved()
    clock[0] += 2
    for _ in range(2):
        assert one.method().method is STAGING
        assert len(one.asked) == 4
    (text,) = (record.getMessage() for record in caplog.records)
    assert text.endswith(f": {FEW.executors}")


def test_what_may_pass_is_refused_each_time_on_the_user_s_write_method(
    stage: Made, clock: list[float]
) -> None:
    """A query that was started again finds out at once that it may go on."""
    one = stage(write_method="staging", proved=FEW)
    for _ in range(3):
        with pytest.raises(SettingsError, match="2 connections are free"):
            one.method()
    one.proved = Proved()
    assert one.method().method is STAGING


@pytest.mark.parametrize("again", [True, False])
def test_connections_that_failed_may_come_again(
    stage: Made, clock: list[float], again: bool
) -> None:
    """Not with the same batch, which is repeated, but a minute later."""
    one = stage(**TASKS)
    assert one.method().method is BY_TASKS
    error = NoConnectionError.from_error(SinkError("full"), again=again)
    assert one.choosing.fall_back_to_driver(error, "table delays")
    assert one.method().method is DRIVER
    clock[0] += 61
    assert one.method().method is (BY_TASKS if again else DRIVER)


# What is found out of executors, without any: a session sends its tasks to itself


OURS = ("me", "db", 7)


class Tasks:
    """Stands in for an RDD: sends the work as Spark does, and runs it in place."""

    def mapPartitions(self, work: Callable[..., Iterable[Any]]) -> Tasks:  # noqa: N802  # Spark's
        self.sent = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]  # pyspark's own
        return self

    def collect(self) -> list[Any]:
        return list(pickle.loads(self.sent)(range(1)))  # noqa: S301  # of a line above


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


def tried(writer: TransactionWriter, **how: Any) -> Proved:
    """What is found out where the server has 99 connections left."""

    def execute(text: str, _: object = ()) -> Any:
        rows = {executor_check._LIMITS: (99, None, None), executor_check._OURS: OURS}
        return SimpleNamespace(fetchone=lambda: rows.get(text, (True,)))

    context = SimpleNamespace(defaultParallelism=2, parallelize=lambda *_: Tasks())
    session: Any = SimpleNamespace(sparkContext=context)
    link: Any = SimpleNamespace(execute=execute)
    return prove(session, writer, link, choice(rows=1, **how))


@pytest.fixture(autouse=True)
def reached(monkeypatch: pytest.MonkeyPatch) -> list[TransactionWriter]:
    """Every task reaches the server; what it was sent."""
    seen: list[TransactionWriter] = []

    def reach(writer: TransactionWriter, ours: object) -> Proved:
        assert ours == OURS
        seen.append(writer)
        return Proved()

    monkeypatch.setattr(executor_check, "reach", reach)
    return seen


def test_nothing_speaks_against_them(reached: list[TransactionWriter]) -> None:
    """Executors that have all they need write; apply= is sent to them only where tasks run it."""
    writer = writer_of(apply=print)
    assert tried(writer) == Proved()
    assert tried(writer, atomicity="partition") == Proved()
    assert [one.target.apply for one in reached] == [None, print]
    assert tried(writer_of(apply=Vault().apply)) == Proved()


class Unloadable:
    """Can be sent, but not loaded there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("s3cret",)

    def __call__(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("dsn", "apply", "how", "said"),
    [
        (Vault().dsn, None, {}, ["function of dsn=", "(TypeError"]),
        (Vault().dsn, None, {"write_method": "staging"}, ["function of dsn=", "(TypeError"]),
        ("host=h", Vault().apply, {"atomicity": "partition"}, ["function of apply="]),
        (Unloadable(), None, {}, ["dsn= or apply=", ": ValueError)"]),
    ],
)
def test_a_function_that_cannot_be_sent_is_an_answer(
    dsn: Any, apply: Any, how: dict[str, Any], said: list[str]
) -> None:
    """Or cannot be loaded there: it says which, and not what pickle says of it."""
    found = tried(writer_of(dsn, apply=apply), **how)
    assert all(part in str(found.executors) for part in said)
    assert "s3cret" not in str(found.executors)
    assert not found.passing


def test_a_missing_module_is_named_by_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the module and the executor's machine."""
    monkeypatch.setattr(executor_check, "NEEDED", ("eo_no_such_module",))
    found = tried(writer_of())
    assert "Python lacks eo_no_such_module (" in str(found.executors)
    assert not found.passing


@pytest.mark.parametrize(
    ("free", "wanted", "said"),
    [
        ((9, None, None), 8, None),
        ((8, None, None), 8, "8 tasks run .* 8 connections .* max_conn"),
        ((97, 4, None), 8, "LIMIT of the role.*max_connections="),
        ((97, 9, 3), 8, "LIMIT of the database"),
        ((-2, None, None), 8, "but 0 connections"),
        (None, 8, None),
    ],
)
def test_connections_are_counted_before_they_are_needed(
    free: tuple[int | None, ...] | None, wanted: int, said: str | None
) -> None:
    """One for each task that runs at once, and one to look for whoever holds a lock."""
    found = executor_check.too_few(free, wanted)
    assert found is None if said is None else re.search(said, str(found))
