"""Events become numbers under the names that dashboards ask for."""

from __future__ import annotations

import logging
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from eo_listener.events import (
    BatchReplayed,
    Event,
    GroupOffsetsMissing,
    InternalError,
    OptionsRead,
    ProgressEventsMissed,
    QueryProgressed,
    QueryReported,
    QueryStateLost,
    RunGroupsChanged,
    SourceIgnored,
    SourceProgressed,
)
from eo_listener.model.batch_metrics import BatchMetrics
from eo_listener.observers.metrics.counters import OTHER, Counted, EventCounters, Numbers, TimeLag
from eo_listener.observers.metrics.families import Families
from eo_listener.observers.metrics.prometheus import Prometheus
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition
from tests.observers.events import (
    APPLIED,
    BATCH,
    FOREIGN,
    HALTED,
    P0,
    P1,
    RUN,
    VIOLATED,
    committed,
    failed,
    refused,
)

NONE = Offsets({})
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(*events: Event, partitions: int = 10_000) -> Series:
    """What a scrape shows after these events."""
    registry = CollectorRegistry()
    observer = Prometheus(registry, partitions=partitions)
    for event in events:
        observer(event)
    return read(registry)


def read(registry: CollectorRegistry) -> Series:
    return of_text(generate_latest(registry).decode())


def of_text(text: str) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Series, name: str, **labels: str) -> float | None:
    return found.get((f"eo_listener_{name}", tuple(sorted(labels.items()))))


def shows(found: Series, labels: dict[str, str], **numbers: float | None) -> bool:
    """Whether these metrics have these values; None: no such series."""
    assert {name: value(found, name, **labels) for name in numbers} == numbers
    return True


GROUP = {"cluster": "k:9092", "consumergroup": "g"}
QUERY = {"query": "flights"}
WRONG = SourceIgnored(**RUN, source=0, problem="p", cause="c", fix="f", misconfigured=True)


def progressed(
    ends: Offsets, log_ends: Offsets | None, run: str = "r1", **measures: float
) -> QueryProgressed:
    source = SourceProgressed(source=0, cluster="k:9092", ends=ends, log_ends=log_ends)
    whole: dict[str, Any] = {"started": 1000.0, "seconds": 2.0, **measures}
    return QueryProgressed(
        query="flights", run_id=run, batch_id=7, metrics=BatchMetrics(**whole), sources=(source,)
    )


def fed(
    run: str = "r1", *, ended: bool = False, groups: Iterable[str] = ("g",)
) -> RunGroupsChanged:
    keys = frozenset(("k:9092", group) for group in groups)
    return RunGroupsChanged(query="flights", run_id=run, groups=keys, ended=ended)


def test_the_time_of_the_last_event_is_that_of_its_arrival() -> None:
    """The newest of all runs of a query, also where that run has no batch yet."""
    times = iter((100.0, 200.0, 300.0, 400.0))
    counters = EventCounters(10, wall=lambda: next(times))
    for event in (QueryReported(**RUN), progressed(Offsets({P0: 5}), None), QueryReported(**RUN)):
        counters(event)
    assert _last_event(counters) == 300.0
    counters(QueryReported(query="flights", run_id="r2"))
    assert _last_event(counters) == 400.0


def _last_event(counters: EventCounters) -> float | None:
    drawn = {one.name: one for one in Families(10).draw(counters.numbers())}
    (sample,) = drawn["eo_listener_query_last_event_timestamp_seconds"].samples
    assert sample.labels == {"query": "flights"}
    return sample.value


def test_offsets_and_lag_have_the_exporters_labels() -> None:
    """kafka_consumergroup_lag{consumergroup,topic,partition} has its like, and so have the sums."""
    found = series(
        progressed(Offsets({P0: 5, P1: 7}), Offsets({P0: 9, P1: 7})),
        committed(Offsets({P0: 5, P1: 7})),
    )
    topic = {**GROUP, "topic": "t"}
    for partition, offset, lag in (("0", 5, 4), ("1", 7, 0)):
        labels = {**topic, "partition": partition}
        assert shows(found, labels, consumergroup_current_offset=offset, consumergroup_lag=lag)
    assert shows(found, topic, consumergroup_current_offset_sum=12, consumergroup_lag_sum=4)
    log = {"cluster": "k:9092", "topic": "t", "partition": "0"}
    assert shows(found, log, topic_partition_current_offset=9)


def test_what_is_committed_again_has_not_moved() -> None:
    """The time of the last commit goes on, that of the last move waits for other offsets."""
    now = [100.0]
    count = EventCounters(9, wall=lambda: now[0])
    for time, offsets, moved in (
        (100.0, Offsets({P0: 5, P1: 7}), 100.0),
        (200.0, Offsets({P0: 5}), 100.0),
        (300.0, Offsets({P0: 5, P1: 8}), 300.0),
        (400.0, Offsets({P0: 4}), 400.0),
    ):
        now[0] = time
        count(committed(offsets))
        numbers = count.numbers()
        assert numbers.last_commits == {("k:9092", "g"): time}
        assert numbers.last_moves == {("k:9092", "g"): moved}


def test_lag_follows_what_is_committed_not_what_is_processed() -> None:
    """While commits fail the lag grows, though the query reads on; without a log end it is none."""
    held, reads_on = committed(Offsets({P0: 5})), progressed(Offsets({P0: 50}), Offsets({P0: 60}))
    for event, lag in ((reads_on, 55), (progressed(Offsets({P1: 5}), None), None)):
        found = series(held, event)
        assert value(found, "consumergroup_lag", **GROUP, topic="t", partition="0") == lag


def test_commits_are_counted_by_outcome() -> None:
    """Confirmed ones with their latency, failed ones by Kafka's error name, refused by reason."""
    found = series(
        *(committed(Offsets({P0: 5}), seconds=seconds) for seconds in (0.005, 0.3, 60.0)),
        *[failed("UNKNOWN_MEMBER_ID")] * 2,
        refused(),
    )
    assert shows(found, GROUP, commits_total=3)
    assert shows(found, {**GROUP, "code": "UNKNOWN_MEMBER_ID"}, commit_failures_total=2)
    assert shows(found, {**GROUP, "reason": "below_group"}, commit_refusals_total=1)
    for bound, count in (("0.005", 1), ("0.5", 2)):
        bucket = {"cluster": "k:9092", "le": bound}
        assert shows(found, bucket, commit_latency_seconds_bucket=count)
    cluster = {"cluster": "k:9092"}
    assert value(found, "commit_latency_seconds_count", **cluster) == 3
    assert value(found, "commit_latency_seconds_sum", **cluster) == pytest.approx(60.305)
    assert value(found, "consumergroup_last_commit_timestamp_seconds", **GROUP)
    assert value(found, "consumergroup_last_move_timestamp_seconds", **GROUP)


def test_a_query_has_sparks_numbers_and_a_lag_in_time() -> None:
    """Rows a second, the newest batch, event time, and how old the oldest unread record may be."""
    found = series(
        progressed(Offsets({P0: 5}), Offsets({P0: 5}), started=1000.0),
        progressed(
            Offsets({P0: 8}),
            Offsets({P0: 9}),
            started=1010.0,
            rows=3,
            input_rows_per_second=1.5,
            processed_rows_per_second=2.5,
            newest=990.0,
            watermark=930.0,
        ),
    )
    assert shows(
        found,
        QUERY,
        query_input_rows=3,
        query_input_rows_per_second=1.5,
        query_processed_rows_per_second=2.5,
        query_last_batch_timestamp_seconds=1012.0,
        query_batch_duration_seconds=2.0,
        query_batch_id=7,
        query_event_time_lag_seconds=22.0,
        query_watermark_timestamp_seconds=930.0,
    )
    assert shows(found, {**QUERY, "source": "0"}, query_lag_seconds=12.0)


def test_what_goes_wrong_is_counted() -> None:
    """Violations by kind, withheld sources, gaps, foreign commits and internal errors."""
    found = series(
        progressed(Offsets({P0: 5}), None),
        replace(VIOLATED, withheld=True),
        ProgressEventsMissed(**RUN, after_batch=3, before_batch=9),
        WRONG,
        FOREIGN,
        InternalError(where="w", problem="p"),
    )
    assert shows(
        found,
        QUERY,
        query_withheld_sources=1,
        progress_event_gaps_total=1,
        sources_ignored_total=1,
        query_ignored_sources=1,
    )
    assert shows(found, {**QUERY, "kind": "gap"}, guard_violations_total=1)
    assert shows(found, {}, internal_errors_total=1)
    assert shows(found, {**GROUP, "kind": "foreign_commit"}, group_incidents_total=1)


def test_a_source_that_is_ignored_is_a_state_of_the_newest_run() -> None:
    """Known before its first batch, gone with a run whose setting is right; the counter stays."""
    other = replace(WRONG, problem="of another topic")
    right = progressed(Offsets({P0: 9}), None, run="r2", started=1010.0)
    for events, ignored in (
        ((WRONG, other), 1),
        ((WRONG, replace(WRONG, source=None)), 2),
        ((WRONG, fed(ended=True), right), 0),
        ((WRONG, OptionsRead(**RUN), progressed(Offsets({P0: 5}), None)), 0),
        ((replace(WRONG, misconfigured=False), right), 0),
    ):
        assert value(series(*events), "query_ignored_sources", query="flights") == ignored
    found = series(WRONG, other, fed(ended=True), right)
    assert value(found, "sources_ignored_total", query="flights") == 2


def test_batches_of_exactly_once_are_counted() -> None:
    """By outcome, with their rows; batch_failures by error; offsets accepted as lost."""
    applied = replace(APPLIED, dead_letters=1, gaps={P0: OffsetRange(5, 9)})
    replayed = BatchReplayed(**BATCH, discarded=False)
    unknown = replace(applied, rows=None, dead_letters=None, gaps={})
    left = QueryStateLost(**BATCH)
    found = series(left, left, applied, unknown, replayed, HALTED)
    assert shows(found, {**QUERY, "outcome": "applied"}, sink_batches_total=2)
    assert shows(found, {**QUERY, "outcome": "replayed"}, sink_batches_total=1)
    assert shows(found, {**QUERY, "error": "GapError"}, sink_batch_failures_total=1)
    assert shows(
        found,
        QUERY,
        sink_rows_total=12,
        sink_dead_letters_total=1,
        sink_accepted_gap_offsets_total=4,
        sink_query_states_lost_total=2,
    )


def test_a_sinks_offsets_are_those_of_the_last_one_and_of_the_newest_run() -> None:
    """Of two sinks the one that is behind counts; where an earlier run stood is not exported."""
    ahead = replace(APPLIED, sink="another", ranges={P0: OffsetRange(9, 12), P1: OffsetRange(4, 5)})
    query = {"query": "flights", "topic": "t"}
    newer = replace(APPLIED, run_id="r2", ranges={P1: OffsetRange(2, 3)})
    for events, first, second in (((APPLIED, ahead), 9, 5), ((APPLIED, ahead, newer), None, 3)):
        found = series(*events)
        assert value(found, "sink_applied_offset", **query, partition="0") == first
        assert value(found, "sink_applied_offset", **query, partition="1") == second
    assert value(series(APPLIED, ahead), "sink_applied_offset_sum", **query) == 14


def test_what_a_sink_tells_is_bounded() -> None:
    """Partitions beyond the limit have sums; queries beyond it no offsets; errors a common name."""
    other = replace(APPLIED, query="other", ranges={TopicPartition("u", 0): OffsetRange(0, 3)})
    found = series(
        replace(APPLIED, ranges={P0: OffsetRange(0, 1), P1: OffsetRange(0, 2)}), other, partitions=1
    )
    assert value(found, "sink_applied_offset", query="flights", topic="t", partition="0") is None
    assert value(found, "sink_applied_offset_sum", query="flights", topic="t") == 3
    assert value(found, "sink_applied_offset", query="other", topic="u", partition="0") == 3
    assert value(found, "partitions_without_series") == 2
    tally = EventCounters(1)
    for number in range(60):
        tally(replace(HALTED, error=f"Error{number}"))
    tally(other)
    numbers = tally.numbers()
    failures = numbers.counts[Counted.SINK_BATCH_FAILURES]
    assert (len(failures), failures["flights", OTHER], failures.total()) == (51, 10, 60)
    assert numbers.counts[Counted.SINK_BATCHES][OTHER, "applied"] == 1
    assert numbers.sinks[OTHER].applied == {}


def test_offsets_that_vanished_have_no_series() -> None:
    """A group that has lost an offset is not shown with it."""
    gone = GroupOffsetsMissing(cluster="k:9092", group="g", offsets=Offsets({P0: 5}))
    found = series(committed(Offsets({P0: 5, P1: 7})), gone)
    for partition, offset in (("0", None), ("1", 7)):
        labels = {**GROUP, "topic": "t", "partition": partition}
        assert value(found, "consumergroup_current_offset", **labels) == offset


def test_series_are_bounded_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Beyond the limit a topic has its sums, whole, and nothing by partition."""
    registry = CollectorRegistry()
    observer = Prometheus(registry, partitions=3)
    for topic in ("a", "b"):
        ends = Offsets.of({topic: {0: 1, 1: 2}})
        observer(progressed(ends, ends, run=topic))
        observer(committed(ends))
    with caplog.at_level(logging.WARNING, "eo_listener"):
        read(registry)
        found = read(registry)
    by_partition = [
        dict(labels)
        for name, labels in found
        if name in ("eo_listener_consumergroup_current_offset", "eo_listener_consumergroup_lag")
    ]
    assert {labels["topic"] for labels in by_partition} == {"a"}
    group = {"cluster": "k:9092", "consumergroup": "g"}
    assert value(found, "consumergroup_current_offset_sum", **group, topic="b") == 3
    assert value(found, "partitions_without_series") == 2
    assert len(caplog.records) == 1


def counters(tally: EventCounters) -> dict[Counted, dict[tuple[str, ...], int]]:
    return {family: dict(counted) for family, counted in tally.numbers().counts.items()}


def test_series_of_what_has_ended_go() -> None:
    """Five minutes after its end a query is gone, with its groups, but for those others feed."""
    now = [0.0]
    tally = EventCounters(100, clock=lambda: now[0])
    empty = counters(tally)
    tally(fed("r1", groups=("alone", "shared")))
    tally(progressed(Offsets({P0: 5}), Offsets({P0: 5})))
    tally(fed("r2", groups=("shared",)))
    for group in ("alone", "shared"):
        tally(committed(Offsets({P0: 5}), group))
    missing = GroupOffsetsMissing(cluster="k:9092", group="alone", offsets=NONE)
    for event in (APPLIED, HALTED, missing):
        tally(event)
    tally(fed("r1", ended=True, groups=("alone", "shared")))
    tally(committed(Offsets({P0: 5}), "alone"))
    now[0] = 299.0
    assert set(tally.numbers().group_offsets) == {("k:9092", "alone"), ("k:9092", "shared")}
    now[0] = 301.0
    left = tally.numbers()
    assert set(left.group_offsets) == set(left.last_commits) == {("k:9092", "shared")}
    assert set(left.last_moves) == {("k:9092", "shared")}
    assert left.counts[Counted.COMMITS] == {("k:9092", "shared"): 1}
    assert not left.counts[Counted.GROUP_INCIDENTS]
    assert left.counts[Counted.SINK_ROWS] == {("flights",): 12}
    assert list(left.runs) == ["r2"]
    tally(fed("r2", ended=True, groups=("shared",)))
    now[0] = 700.0
    left = tally.numbers()
    assert (left.group_offsets, left.last_commits, left.runs, left.sinks) == ({}, {}, {}, {})
    assert left.last_moves == {}
    assert counters(tally) == empty


def test_a_copy_of_the_numbers_does_not_change() -> None:
    """A scrape draws it while events go on; each part of it is as it was when it was taken."""
    tally = EventCounters(10)

    def tell(*ends: int) -> None:
        for number, end in enumerate(ends):
            offsets, log_ends = Offsets({P0: end}), Offsets({P0: end + number})
            tally(progressed(offsets, log_ends, started=float(end), rows=end))
            tally(committed(offsets, seconds=float(end)))
            tally(replace(APPLIED, ranges={P0: OffsetRange(0, end)}, sink=f"sink {number}"))
            tally(HALTED)

    def text(numbers: Numbers) -> str:
        return "\n".join(str(family) for family in Families(10).draw(numbers))

    tell(5)
    taken = tally.numbers()
    before = text(taken)
    tell(7, 9)
    tally(VIOLATED)
    tally(GroupOffsetsMissing(cluster="k:9092", group="g", offsets=Offsets({P0: 9})))
    assert text(taken) == before
    assert text(tally.numbers()) != before


def test_a_new_run_takes_the_place_of_the_old() -> None:
    """A restarted query keeps its series, with the numbers of the newer run."""
    found = series(
        fed("r1"),
        progressed(Offsets({P0: 5}), Offsets({P0: 5}), run="r1", started=1000.0, rows=1),
        fed("r1", ended=True),
        fed("r2"),
        progressed(Offsets({P0: 9}), Offsets({P0: 9}), run="r2", started=2000.0, rows=2),
        committed(Offsets({P0: 9})),
    )
    assert value(found, "query_input_rows", query="flights") == 2
    log = {"cluster": "k:9092", "topic": "t", "partition": "0"}
    assert value(found, "topic_partition_current_offset", **log) == 9


def test_groups_beyond_the_limit_count_together() -> None:
    """A program that makes ever new groups does not fill the memory, and loses no count."""
    tally = EventCounters(2)
    for number in range(5):
        tally(committed(Offsets({P0: 5}), f"g{number}"))
    numbers = tally.numbers()
    assert numbers.counts[Counted.COMMITS] == {
        ("k:9092", "g0"): 1,
        ("k:9092", "g1"): 1,
        (OTHER, OTHER): 3,
    }
    assert numbers.group_offsets[OTHER, OTHER] == {}
    drawn = list(Families(10).draw(numbers))
    assert len({family.name for family in drawn}) == len(drawn)


_MULTIPROCESS = """
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from eo_listener.events import InternalError
from eo_listener.observers.metrics.prometheus import Prometheus

registry = CollectorRegistry()
MultiProcessCollector(registry)
Prometheus(registry)(InternalError(where="w", problem="p"))
print(generate_latest(registry).decode())
"""


def test_in_a_program_of_several_processes_each_metric_is_there_once(tmp_path: Path) -> None:
    """The library keeps its own metrics in PROMETHEUS_MULTIPROC_DIR, and would show them twice."""
    done = subprocess.run(
        [sys.executable, "-c", _MULTIPROCESS],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("\neo_listener_internal_errors_total 1.0\n") == 1
    assert "_created" not in done.stdout
    assert not list(tmp_path.iterdir())


def test_the_start_tells_two_lives_of_a_driver_apart() -> None:
    """It is there before any event, and stays; a counter of 1 in each life says nothing of that."""
    clock = iter([1000.0, 2000.0, 3000.0])
    first, second = (EventCounters(10, wall=lambda: next(clock)) for _ in range(2))
    first(committed(Offsets({P0: 5})))
    assert (first.numbers().started, second.numbers().started) == (1000.0, 2000.0)
    assert (value(series(), "start_timestamp_seconds") or 0.0) > 1e9


def test_the_document_names_every_metric_and_no_other() -> None:
    """docs/reference/metrics.md is what people write their dashboards by."""
    text = (Path(__file__).parents[3] / "docs/reference/metrics.md").read_text()
    named = set(re.findall(r"\beo_listener_[a-z_]*[a-z]\b", text))
    suffixes = {"counter": "_total", "info": "_info"}
    there = {family.name + suffixes.get(family.type, "") for family in Families(10).draw(Numbers())}
    assert named == there


def at(offset: int) -> Offsets:
    return Offsets.of({"t": {0: offset}})


@pytest.mark.parametrize(
    ("batches", "lags"),
    [
        # Spark reads up to the ends that it saw, without a limit on the batch.
        ([(0, 5, 5), (1, 7, 7), (2, 7, 7)], [0.0, 0.0, 0.0]),
        # How long what lay there at the start had been lying is not known to an event.
        ([(10, 1, 3), (20, 3, 9)], [None, 11.0]),
        # Trigger.AvailableNow reads the log ends once; each of its batches reports these again.
        ([(0, 0, 3), (1, 1, 3), (2, 2, 3), (3, 3, 3)], [None, None, None, 0.0]),
    ],
)
def test_after_each_batch(batches: list[tuple[int, int, int]], lags: list[float | None]) -> None:
    """Of each batch its start, where it ended, and where the log did then."""
    source = TimeLag()
    assert source.lag(9.0) is None
    for (second, end, log_end), lag in zip(batches, lags, strict=True):
        source.progressed(float(second), at(end), at(log_end))
        assert source.lag(second + 1.0) == lag


def test_a_partition_that_lags_alone_counts() -> None:
    """All partitions of a source must have come so far."""
    source = TimeLag()
    source.progressed(1.0, Offsets.of({"t": {0: 5, 1: 5}}), Offsets.of({"t": {0: 5, 1: 5}}))
    source.progressed(2.0, Offsets.of({"t": {0: 9, 1: 5}}), Offsets.of({"t": {0: 9, 1: 6}}))
    assert source.lag(3.0) == 2.0


def test_it_is_never_too_small_and_bounded() -> None:
    """Against a log whose every record has a known time, over a thousand random batches."""
    dice = random.Random(7)
    source, now, end = TimeLag(), 0.0, 0
    written: list[float] = []  # when the record at each offset was written
    for _ in range(1000):
        seen, started = len(written), now
        end = min(seen, end + dice.randrange(12))
        for _ in range(dice.randrange(12)):
            now += dice.random()
            written.append(now)
        source.progressed(started, at(end), at(seen))
        told = source.lag(now)
        unread = written[end:seen]
        if told is not None and unread:
            assert told >= now - unread[0]
        assert len(source._ahead) <= 65
