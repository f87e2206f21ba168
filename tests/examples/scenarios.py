"""What is done to drivers, and which alerts fire for it: those named, and no other.

A scenario without alerts is one of a healthy driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.errors import KafkaError
from eo_listener.offsets import Position, TopicPartition
from eo_listener.testing import MemorySink
from tests.examples.driver import HOUR, P0, TIMES, Driver, SinkOfSome

_SCRAPED = 1.5  # seconds, in which Prometheus asks a driver at least once


def _nothing(driver: Driver) -> None:
    """It stays as it is, or passes by itself."""


def _driver(
    *, sink: Callable[[], MemorySink | None] = lambda: None, **how: Any
) -> Callable[[str], Driver]:
    return lambda name: Driver(name, sink=sink(), **how)


def _set(**given: Any) -> Callable[[Driver], None]:
    def change(driver: Driver) -> None:
        for name, value in given.items():
            setattr(driver, name, value)

    return change


@dataclass(frozen=True)
class Scenario:
    """`end` takes the cause away that `begin` has made; `says` stands in what the alerts say.

    `beside` are alerts that fire too where the cause lasts for long.
    """

    name: str
    begin: Callable[[Driver], None]
    alerts: frozenset[str]
    beside: frozenset[str]
    says: str
    end: Callable[[Driver], None]
    driver: Callable[[str], Driver]


def _alerts(names: str) -> frozenset[str]:
    return frozenset(f"EoListener{name}" for name in names.split())


def _case(
    name: str,
    alerts: str = "",
    begin: Callable[[Driver], None] = _nothing,
    end: Callable[[Driver], None] = _nothing,
    *,
    says: str = "",
    beside: str = "",
    driver: Callable[[str], Driver] = Driver,
) -> Scenario:
    return Scenario(name, begin, _alerts(alerts), _alerts(beside), says, end, driver)


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
    driver.queries.source_options = {0: driver.options("")}
    driver.restart_query()


def _restart_with_its_group(driver: Driver) -> None:
    driver.queries.source_options = {0: driver.options()}
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


MINUTES = (
    # healthy
    _case("steady", driver=_driver(sink=MemorySink)),
    _case("a-batch-behind", driver=_driver(backlog=10, step=10)),
    _case("idle", driver=_driver(backlog=10, written=0)),
    _case("traffic-drops", begin=_set(written=1)),
    _case("redeployed", begin=lambda driver: _restart(driver, 3)),
    _case("ended-behind", begin=_end_behind),
    # drivers and groups
    _case(
        "no-answer",
        "TargetDown",
        lambda driver: driver.metrics.close(),
        _answer,
        says="No metrics from no-answer",
    ),
    _case(
        "dies-again",
        "DriverRestarts",
        lambda driver: _restart(driver, 4),
        says="was restarted 4 times",
    ),
    _case(
        "no-right",
        "CommitsFail CommitErrorRate QueryStandsStill",
        _commits_fail,
        _commits_succeed,
        beside="RateDropped",
        says="confirmed commits to the group: GROUP_AUTHORIZATION_FAILED.",
    ),
    _case(
        "coordinator-unwell",
        "CommitErrorRate",
        lambda driver: driver.store.faults.extend([_time_out] * 9),
        says="% of the commits to group coordinator-unwell fail",
    ),
    _case(
        "a-tool-commits",
        "SomebodyElseCommits",
        _between_batches(_commit_as_a_tool),
        says="a-tool-commits (foreign_commit)",
    ),
    _case(
        "fenced",
        "SomebodyElseCommits",
        lambda driver: driver.store.faults.append(_fence),
        Driver.restart,
        says="fenced (fenced)",
    ),
    _case("topic-recreated", "TopicRecreated", _between_batches(_recreate_topic), Driver.restart),
    _case(
        "group-deleted",
        "GroupIncident",
        _between_batches(lambda driver: driver.store.groups.clear()),
        says="group-deleted: offsets_missing",
    ),
    _case("read-twice", "GroupIncident", _set(sources=2), says="read-twice: partitions_shared"),
    _case(
        "older-checkpoint",
        "CommitsRefused",
        _restart_from_before,
        says="refused (below_group)",
        driver=_driver(backlog=1000),
    ),
    # queries
    _case(
        "more-is-written",
        "QueryFallsBehind",
        _set(written=30, step=10),
        _set(written=10, step=10_000),
        says="Query more-is-written is ",
    ),
    _case("executors-lost", "QueryFallsBehind RateDropped", _set(step=2), _set(step=10_000)),
    _case(
        "backlog",
        "QueryNotCaughtUp",
        end=_set(step=1_000_000),
        says="records of t wait",
        driver=_driver(backlog=100_000, step=10),
    ),
    _case(
        "hangs-behind",  # what it has reached is committed again meanwhile
        "QueryFallsBehind QueryStandsStill QueryHangs",
        _hang_behind,
        _set(hangs=False, step=10_000),
        beside="RateDropped",
        driver=_driver(recommit=HOUR / 6),
    ),
    _case(
        "hangs-at-the-end",  # only `serve` sees that records wait
        "QueryStandsStill QueryHangs",
        _set(hangs=True),
        _set(hangs=False),
    ),
    _case(
        "skips",
        "BatchesDoNotContinue SourceWithheld",
        lambda driver: driver.skip(5),
        _accept,
        says="(gap)",
    ),
    _case("wrong-group", "SourceIgnored", _restart_with_a_wrong_group, _restart_with_its_group),
    _case("events-dropped", "ProgressEventsMissed", lambda driver: driver.skip(30, batches=3)),
    # sinks
    _case(
        "sink-refuses",
        "SinkBatchFailed",
        lambda driver: driver.skip(5),
        says="sink-refuses failed: GapError",
        driver=_driver(sink=MemorySink, listens=False),
    ),
    _case(
        "format-changed",
        "DeadLetters",
        lambda driver: _refuse_some(driver, 5),
        lambda driver: _refuse_some(driver, 0),
        says="of the rows of query format-changed cannot be written",
        driver=_driver(sink=SinkOfSome, listens=False),
    ),
    _case(
        "gap-accepted",
        "RowsLost",
        lambda driver: driver.skip(40),
        driver=_driver(sink=MemorySink, listens=False, on_gap="accept"),
    ),
    _case(
        "checkpoint-deleted",
        "RowsLost",
        _begin_another_checkpoint,
        driver=_driver(sink=MemorySink, listens=False),
    ),
    # eo_listener itself
    _case(
        "event-unreadable",
        "InternalError",
        lambda driver: driver.arrives("{}"),
        says="eo_listener has a fault in event-unreadable",
    ),
)
"""Where a minute is a second."""

HOURS_TIMES, DAYS_TIMES = 10 * TIMES, 240 * TIMES
_IDLE = _driver(backlog=10, written=0, recommit=3600 / HOURS_TIMES)

HOURS_AND_DAYS = (
    _case("committed-hourly", driver=_IDLE),
    _case("withheld", begin=_skip_and_go_idle, driver=_IDLE),
    _case(
        "hourly-fails",
        "CommitsStandStill",
        _commits_fail,
        _commits_succeed,
        says="Group hourly-fails was not committed for ",
        driver=_IDLE,
    ),
    _case(
        "down-for-days",
        "GroupExpires",
        Driver.close,
        Driver.restart,
        says="Kafka will soon forget group down-for-days",
        driver=_IDLE,
    ),
    _case("ended-for-good", "GroupExpires", Driver.close, driver=_IDLE),
)
"""Where for CommitsStandStill an hour takes six seconds, and for GroupExpires a day as many."""
