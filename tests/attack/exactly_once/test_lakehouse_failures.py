"""Failures that a pipeline into the lake is planned for, each in the test of its name.

Into a Delta table. After each of them every record is there once, and ledger, checkpoint, consumer
group and log agree. The same points for Iceberg tables are in `test_crash_points.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.exactly_once.lives import Lives
from tests.attack.exactly_once.settings import begin

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(params=["delta"])
def lives(request: pytest.FixtureRequest, tmp_path: Path) -> Lives:
    """A query with three batches before it."""
    found = begin(request.param, request, tmp_path)
    found.fill(found.job.batch)
    return found


@pytest.mark.parametrize("point", ["sink.begun", "sink.commit-sent", "sink.committed"])
def test_spark_crash(lives: Lives, point: str) -> None:
    """SIGKILL to the driver, JVM and all, at the commit of its second batch."""
    lives.fell(point, 2)
    lives.finish()


def test_kill_in_mid_batch(lives: Lives) -> None:
    """While a task reads the records of the second batch."""
    lives.fell("task.row", 2)
    lives.finish()


def test_offset_consistency(lives: Lives) -> None:
    """The group is behind where a driver died before it was told; in the end all four agree."""
    lives.fell("listener.progress", 2)
    held_by_group = lives.group()
    assert held_by_group != lives.read().heads
    lives.finish()  # which compares the ledger, the checkpoint, the group and the log
    assert dict(lives.group()) == lives.read().heads


def test_count_stability_over_5_restarts(lives: Lives) -> None:
    """Without new records nothing changes; with new ones, these are added, and no others."""
    lives.finish()
    count = len(lives.read().rows)
    for new in (0, 10, 0, 20, 0):
        lives.fill(new)
        lives.finish()
        count += 3 * new
        assert len(lives.read().rows) == count
