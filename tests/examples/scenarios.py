"""What is done to drivers, and which alerts fire for it: those named, and no other."""

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
    """`end` takes away the cause that `begin` has made; the alerts `beside` fire if it lasts."""

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


def _fail(fault: Callable[..., Any], times: int) -> Callable[[Driver], None]:
    return lambda driver: driver.store.faults.extend([fault] * times)


_commits_fail = _fail(_refuse, 100_000)


def _commits_succeed(driver: Driver) -> None:
    driver.store.faults.clear()


def _go_silent(driver: Driver) -> None:
    driver.metrics.close()


def _answer(driver: Driver) -> None:
    driver.metrics.serve(driver.port)


def _behind(then: Callable[[Driver], object]) -> Callable[[Driver], None]:
    def begin(driver: Driver) -> None:
        driver.step = 5
        time.sleep(_SCRAPED)
        then(driver)

    return begin


def _skip(records: int, **how: int) -> Callable[[Driver], None]:
    return lambda driver: driver.skip(records, **how)


def _skip_and_go_idle(driver: Driver) -> None:
    driver.skip(5)
    driver.written = 10
    time.sleep(_SCRAPED)
    driver.written = 0


def _restarts(times: int) -> Callable[[Driver], None]:
    def begin(driver: Driver) -> None:
        for _ in range(times):
            driver.restart()
            time.sleep(_SCRAPED)

    return begin


def _restart_from_before(driver: Driver) -> None:
    driver.step = 30
    driver.restart(back=200)


def _recreate_topic(driver: Driver) -> None:
    driver.store.topic_ids["t"] = "another id"
    driver.store.groups.clear()


def _restart_in(group: str | None) -> Callable[[Driver], None]:
    """None: in its own group."""

    def begin(driver: Driver) -> None:
        driver.queries.source_options = {0: driver.options(group)}
        driver.restart_query()

    return begin


def _delete_group(driver: Driver) -> None:
    driver.store.groups.clear()


def _arrives(driver: Driver) -> None:
    driver.arrives("{}")


def _accept(driver: Driver) -> None:
    driver.guard = GuardMode.WARN
    driver.restart()


def _between(change: Callable[[Driver], object]) -> Callable[[Driver], None]:
    """The group is read at the next commit: its newest snapshot is older than a minute then."""

    def begin(driver: Driver) -> None:
        driver.hangs = True
        time.sleep(_SCRAPED)
        change(driver)
        driver.hangs = False

    return begin


def _by_a_tool(driver: Driver) -> None:
    driver.store.groups[driver.name][P0] = Position(offset=3, metadata="a tool")


def _refuse_some(rows: int) -> Callable[[Driver], None]:
    def change(driver: Driver) -> None:
        assert isinstance(driver.sink, SinkOfSome)
        driver.sink.refused = rows

    return change


def _begin_another_checkpoint(driver: Driver) -> None:
    driver.plans = replace(driver.plans, query_id="another", stateful=True)
    driver.restart()


_SINK, _OF_SOME = (_driver(sink=sink, listens=False) for sink in (MemorySink, SinkOfSome))
MINUTES = (
    # healthy
    _case("steady", driver=_driver(sink=MemorySink)),
    _case("a-batch-behind", driver=_driver(backlog=10, step=10)),
    _case("idle", driver=_driver(backlog=10, written=0)),
    _case("traffic-drops", begin=_set(written=1)),
    _case("redeployed", begin=_restarts(3)),
    _case("ended-behind", begin=_behind(Driver.end_query)),
    # drivers and groups
    _case("no-answer", "TargetDown", _go_silent, _answer, says="No metrics from no-answer"),
    _case("dies-again", "DriverRestarts", _restarts(4), says="was restarted 4 times"),
    _case(
        "no-right",
        "CommitsFail CommitErrorRate QueryStandsStill",
        _commits_fail,
        _commits_succeed,
        beside="RateDropped",
        says="confirmed commits to the group: GROUP_AUTHORIZATION_FAILED.",
    ),
    _case("coordinator-unwell", "CommitErrorRate", _fail(_time_out, 9), says="% of the commits"),
    _case("a-tool-commits", "SomebodyElseCommits", _between(_by_a_tool), says="(foreign_commit)"),
    _case("fenced", "SomebodyElseCommits", _fail(_fence, 1), Driver.restart, says="(fenced)"),
    _case("topic-recreated", "TopicRecreated", _between(_recreate_topic), Driver.restart),
    _case("group-deleted", "GroupIncident", _between(_delete_group), says=": offsets_missing"),
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
    ),
    _case("executors-lost", "QueryFallsBehind RateDropped", _set(step=2), _set(step=10_000)),
    _case(
        "backlog",
        "QueryNotCaughtUp",
        end=_set(step=1_000_000),
        says="records of t wait",
        driver=_driver(backlog=100_000, step=10),
    ),
    # What it has reached is committed again meanwhile.
    _case(
        "hangs-behind",
        "QueryFallsBehind QueryStandsStill QueryHangs",
        _behind(_set(hangs=True)),
        _set(hangs=False, step=10_000),
        beside="RateDropped",
        driver=_driver(recommit=HOUR / 6),
    ),
    # Only `serve` sees that records wait.
    _case("hangs-at-the-end", "QueryStandsStill QueryHangs", _set(hangs=True), _set(hangs=False)),
    _case("skips", "BatchesDoNotContinue SourceWithheld", _skip(5), _accept, says="(gap)"),
    _case("wrong-group", "SourceIgnored", _restart_in(""), _restart_in(None)),
    _case("events-dropped", "ProgressEventsMissed", _skip(30, batches=3)),
    # sinks
    _case("sink-refuses", "SinkBatchFailed", _skip(5), says="failed: GapError", driver=_SINK),
    _case(
        "format-changed",
        "DeadLetters",
        _refuse_some(5),
        _refuse_some(0),
        says="of query format-changed cannot be written",
        driver=_OF_SOME,
    ),
    _case(
        "gap-accepted",
        "RowsLost",
        _skip(40),
        driver=_driver(sink=MemorySink, listens=False, on_gap="accept"),
    ),
    _case("checkpoint-deleted", "RowsLost", _begin_another_checkpoint, driver=_SINK),
    # eo_listener itself
    _case("event-unreadable", "InternalError", _arrives, says="a fault in event-unreadable"),
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
