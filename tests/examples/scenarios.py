"""What is done to drivers, and which alerts fire for it: those named, and no other.

A scenario without alerts is one of a healthy driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import Position, TopicPartition
from eo_listener.testing import MemorySink
from tests.examples.driver import HOUR, P0, TIMES, Driver, SinkOfSome

_SCRAPED = 1.5  # seconds, in which Prometheus asks a driver at least once


def _nothing(driver: Driver) -> None:
    """It stays as it is, or passes by itself."""


def _driver(**how: Any) -> Callable[[str], Driver]:
    return lambda name: Driver(name, **how)


def _set(**given: Any) -> Callable[[Driver], None]:
    def change(driver: Driver) -> None:
        for name, value in given.items():
            setattr(driver, name, value)

    return change


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`end` takes the cause away that `begin` has made; `says` stands in what the alerts say.

    `beside` are alerts that fire too where the cause lasts for long.
    """

    name: str
    begin: Callable[[Driver], None] = _nothing
    alerts: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    says: str = ""
    end: Callable[[Driver], None] = _nothing
    driver: Callable[[str], Driver] = Driver


def _alerts(*names: str) -> frozenset[str]:
    return frozenset(f"EoListener{name}" for name in names)


def _refuse(group: str, positions: Any) -> Mapping[TopicPartition, str | None]:
    return dict.fromkeys(positions, "GROUP_AUTHORIZATION_FAILED")


def _time_out(group: str, positions: Any) -> None:
    raise KafkaError("no answer", code="REQUEST_TIMED_OUT")


def _fence(group: str, positions: Any) -> None:
    raise KafkaError("fenced", code="_FENCED")


def _commits_fail(driver: Driver) -> None:
    driver.store.faults.extend([_refuse] * 100_000)


def _commits_succeed(driver: Driver) -> None:
    driver.store.faults.clear()


def _answer(driver: Driver) -> None:
    driver.metrics.serve(driver.port)


def _hang_behind(driver: Driver) -> None:
    driver.step = 5
    time.sleep(_SCRAPED)
    driver.hangs = True


def _end_behind(driver: Driver) -> None:
    driver.step = 5
    time.sleep(_SCRAPED)
    driver.end_query()


def _skip_and_go_idle(driver: Driver) -> None:
    driver.skip(5)
    driver.written = 10
    time.sleep(_SCRAPED)
    driver.written = 0


def _restart(driver: Driver, times: int) -> None:
    for _ in range(times):
        driver.restart()
        time.sleep(_SCRAPED)


def _restart_from_before(driver: Driver) -> None:
    driver.step = 30
    driver.restart(back=200)


def _recreate_topic(driver: Driver) -> None:
    driver.store.topic_ids["t"] = "another id"
    driver.store.groups.clear()


def _restart_with_a_wrong_group(driver: Driver) -> None:
    driver.queries.given = {0: driver.options("")}
    driver.restart_query()


def _restart_with_its_group(driver: Driver) -> None:
    driver.queries.given = {0: driver.options()}
    driver.restart_query()


def _accept(driver: Driver) -> None:
    driver.guard = GuardMode.WARN
    driver.restart()


def _between_batches(change: Callable[[Driver], object]) -> Callable[[Driver], None]:
    """The group is read at the next commit: its newest snapshot is older than a minute then."""

    def begin(driver: Driver) -> None:
        driver.hangs = True
        time.sleep(_SCRAPED)
        change(driver)
        driver.hangs = False

    return begin


def _commit_as_a_tool(driver: Driver) -> None:
    driver.store.groups[driver.name][P0] = Position(offset=3, metadata="a tool")


def _refuse_some(driver: Driver, rows: int) -> None:
    assert isinstance(driver.sink, SinkOfSome)
    driver.sink.refused = rows


def _begin_another_checkpoint(driver: Driver) -> None:
    driver.plans = replace(driver.plans, query_id="another", stateful=True)
    driver.restart()


_SINK_ALONE = {"listens": False}

MINUTES = (
    # healthy
    Scenario(name="steady", driver=lambda name: Driver(name, sink=MemorySink())),
    Scenario(name="a-batch-behind", driver=_driver(backlog=10, step=10)),
    Scenario(name="idle", driver=_driver(backlog=10, written=0)),
    Scenario(name="traffic-drops", begin=_set(written=1)),
    Scenario(name="redeployed", begin=lambda driver: _restart(driver, 3)),
    Scenario(name="ended-behind", begin=_end_behind),
    # drivers and groups
    Scenario(
        name="no-answer",
        begin=lambda driver: driver.metrics.close(),
        alerts=_alerts("TargetDown"),
        says="No metrics from no-answer",
        end=_answer,
    ),
    Scenario(
        name="dies-again",
        begin=lambda driver: _restart(driver, 4),
        alerts=_alerts("DriverRestarts"),
        says="was restarted 4 times",
    ),
    Scenario(
        name="no-right",
        begin=_commits_fail,
        alerts=_alerts("CommitsFail", "CommitErrorRate", "QueryStandsStill"),
        beside=_alerts("RateDropped"),
        says="confirmed commits to the group: GROUP_AUTHORIZATION_FAILED.",
        end=_commits_succeed,
    ),
    Scenario(
        name="coordinator-unwell",
        begin=lambda driver: driver.store.faults.extend([_time_out] * 9),
        alerts=_alerts("CommitErrorRate"),
        says="% of the commits to group coordinator-unwell fail",
    ),
    Scenario(
        name="a-tool-commits",
        begin=_between_batches(_commit_as_a_tool),
        alerts=_alerts("SomebodyElseCommits"),
        says="a-tool-commits (foreign_commit)",
    ),
    Scenario(
        name="fenced",
        begin=lambda driver: driver.store.faults.append(_fence),
        alerts=_alerts("SomebodyElseCommits"),
        says="fenced (fenced)",
        end=Driver.restart,
    ),
    Scenario(
        name="topic-recreated",
        begin=_between_batches(_recreate_topic),
        alerts=_alerts("TopicRecreated"),
        end=Driver.restart,
    ),
    Scenario(
        name="group-deleted",
        begin=_between_batches(lambda driver: driver.store.groups.clear()),
        alerts=_alerts("GroupIncident"),
        says="group-deleted: offsets_missing",
    ),
    Scenario(
        name="read-twice",
        begin=_set(sources=2),
        alerts=_alerts("GroupIncident"),
        says="read-twice: partitions_shared",
    ),
    Scenario(
        name="older-checkpoint",
        driver=_driver(backlog=1000),
        begin=_restart_from_before,
        alerts=_alerts("CommitsRefused"),
        says="refused (below_group)",
    ),
    # queries
    Scenario(
        name="more-is-written",
        begin=_set(written=30, step=10),
        alerts=_alerts("QueryFallsBehind"),
        says="Query more-is-written is ",
        end=_set(written=10, step=10_000),
    ),
    Scenario(
        name="executors-lost",
        begin=_set(step=2),
        alerts=_alerts("QueryFallsBehind", "RateDropped"),
        end=_set(step=10_000),
    ),
    Scenario(
        name="backlog",
        driver=_driver(backlog=100_000, step=10),
        alerts=_alerts("QueryNotCaughtUp"),
        says="records of t wait",
        end=_set(step=1_000_000),
    ),
    Scenario(
        name="hangs-behind",  # what it has reached is committed again meanwhile
        driver=_driver(recommit=HOUR / 6),
        begin=_hang_behind,
        alerts=_alerts("QueryFallsBehind", "QueryStandsStill", "QueryHangs"),
        beside=_alerts("RateDropped"),
        end=_set(hangs=False, step=10_000),
    ),
    Scenario(
        name="hangs-at-the-end",  # only `serve` sees that records wait
        begin=_set(hangs=True),
        alerts=_alerts("QueryStandsStill", "QueryHangs"),
        end=_set(hangs=False),
    ),
    Scenario(
        name="skips",
        begin=lambda driver: driver.skip(5),
        alerts=_alerts("BatchesDoNotContinue", "SourceWithheld"),
        says="does not continue the one before (gap)",
        end=_accept,
    ),
    Scenario(
        name="wrong-group",
        begin=_restart_with_a_wrong_group,
        alerts=_alerts("SourceIgnored"),
        end=_restart_with_its_group,
    ),
    Scenario(
        name="events-dropped",
        begin=lambda driver: driver.skip(30, batches=3),
        alerts=_alerts("ProgressEventsMissed"),
    ),
    # sinks
    Scenario(
        name="sink-refuses",
        driver=lambda name: Driver(name, sink=MemorySink(), **_SINK_ALONE),
        begin=lambda driver: driver.skip(5),
        alerts=_alerts("SinkBatchFailed"),
        says="sink-refuses failed: GapError",
    ),
    Scenario(
        name="format-changed",
        driver=lambda name: Driver(name, sink=SinkOfSome(), **_SINK_ALONE),
        begin=lambda driver: _refuse_some(driver, 5),
        alerts=_alerts("DeadLetters"),
        says="of the rows of query format-changed cannot be written",
        end=lambda driver: _refuse_some(driver, 0),
    ),
    Scenario(
        name="gap-accepted",
        driver=lambda name: Driver(name, sink=MemorySink(), on_gap="accept", **_SINK_ALONE),
        begin=lambda driver: driver.skip(40),
        alerts=_alerts("RowsLost"),
    ),
    Scenario(
        name="checkpoint-deleted",
        driver=lambda name: Driver(name, sink=MemorySink(), **_SINK_ALONE),
        begin=_begin_another_checkpoint,
        alerts=_alerts("RowsLost"),
    ),
    # eo_listener itself
    Scenario(
        name="event-unreadable",
        begin=lambda driver: driver.arrives("{}"),
        alerts=_alerts("InternalError"),
        says="eo_listener has a fault in event-unreadable",
    ),
)
"""Where a minute is a second."""

HOURS_TIMES, DAYS_TIMES = 10 * TIMES, 240 * TIMES
_IDLE = _driver(backlog=10, written=0, recommit=3600 / HOURS_TIMES)

HOURS_AND_DAYS = (
    Scenario(name="committed-hourly", driver=_IDLE),
    Scenario(name="withheld", driver=_IDLE, begin=_skip_and_go_idle),
    Scenario(
        name="hourly-fails",
        driver=_IDLE,
        begin=_commits_fail,
        alerts=_alerts("CommitsStandStill"),
        says="Group hourly-fails was not committed for ",
        end=_commits_succeed,
    ),
    Scenario(
        name="down-for-days",
        driver=_IDLE,
        begin=Driver.close,
        alerts=_alerts("GroupExpires"),
        says="Kafka will soon forget group down-for-days",
        end=Driver.restart,
    ),
    Scenario(
        name="ended-for-good",
        driver=_IDLE,
        begin=Driver.close,
        alerts=_alerts("GroupExpires"),
    ),
)
"""Where for CommitsStandStill an hour takes six seconds, and for GroupExpires a day as many."""
