"""The write method of a batch, from what was wanted, what was proved, and what its tasks read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.model.ledger import Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres import method_choice
from eo_listener.sinks.postgres.executor_tasks import NoConnectionError
from eo_listener.sinks.postgres.method_choice import ChosenMethod, MethodChoice
from eo_listener.sinks.postgres.staging import NoStagingError
from eo_listener.sinks.postgres.write_methods import Choice, Proved, Ranges, WriteMethod
from eo_listener.testing.made_up_entries import entry_of, plan_of

A, B = (TopicPartition("flights", number) for number in range(2))
READ: Ranges = ((B, OffsetRange(0, 4)), (A, OffsetRange(0, 5)))
WHOLE = entry_of({}, {A: OffsetRange(0, 5), B: OffsetRange(0, 4)})
REST = entry_of({}, {A: OffsetRange(0, 5)})
LARGE = entry_of({}, {A: OffsetRange(0, 5_000_000), B: OffsetRange(0, 4)})
WRITER: Any = SimpleNamespace(label="table delays")
LINK: Any = object()
NO_RANGES = SettingsError("a task reads several partitions", cause="a shuffle", fix="leave it out")


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
        given: dict[str, Any] = {
            "write_method": "auto",
            "atomicity": "batch",
            "rows": 9,
            "connections": 3,
        } | how
        self.asked: list[tuple[Any, ...]] = []
        session = SimpleNamespace(conf=conf or {})
        self.frame = SimpleNamespace(sparkSession=session, _jdf=None if far else object())
        self.proved = proved or Proved()
        self.choice = Choice.of(**given)
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


DRIVER, STAGING, BY_TASKS = WriteMethod.DRIVER, WriteMethod.STAGING, WriteMethod.TASKS
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


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("error", "tasks"),
    [(NoStagingError("no right"), BY_TASKS), (SinkError("away"), DRIVER)],
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
    """What time it is, for a pause."""
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
    error = NoConnectionError.of(SinkError("full"), again=again)
    assert one.choosing.fall_back_to_driver(error, "table delays")
    assert one.method().method is DRIVER
    clock[0] += 61
    assert one.method().method is (BY_TASKS if again else DRIVER)


def test_a_right_that_is_missing_too_is_added(stage: Made) -> None:
    """What was found out before still stands."""
    one = stage(**TASKS, proved=Proved(executors="no module"))
    one.method()
    one.choosing.fall_back_to_driver(NoStagingError("no right"), "table delays")
    assert one.method().method is DRIVER
