"""Each request of a batch lost, late, twice or refused: the batch is there once, and the next."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from eo_listener.kafka import client
from eo_listener.sinks.kafka import ledger_topic
from tests.attack.conftest import Attacked
from tests.attack.kafka_sink.cases import ALL, FEW, Case
from tests.attack.kafka_sink.course import Course
from tests.sinks.kafka.frames import without_spark

pytestmark = pytest.mark.kafka


@pytest.fixture
def course(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> Iterator[Course]:
    """A sink that writes through the driver, in a hurry."""
    without_spark(monkeypatch)
    monkeypatch.setitem(client._COMMON, "socket.timeout.ms", "1000")
    monkeypatch.setattr(ledger_topic, "LEDGER_PARTITIONS", 1)
    with Course.begun(attacked, rows, group=True) as begun:
        yield begun


def rows(batch: int, count: int) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([str(row % 5) for row in range(count)], pa.string()),
            "value": pa.array([f"{batch}.{row}" for row in range(count)], pa.string()),
        }
    )


@pytest.mark.parametrize(
    "case",
    [case if str(case) in FEW else pytest.param(case, marks=pytest.mark.campaign) for case in ALL],
    ids=str,
)
def test_a_request_that_meets_a_fault(course: Course, case: Case) -> None:
    """Nothing is lost or doubled, no transaction stays open, and the query goes on."""
    attempts = course.meet(case)
    print(f"{case}: {attempts} attempts")  # noqa: T201  # shown when it fails
    course.check(case)
