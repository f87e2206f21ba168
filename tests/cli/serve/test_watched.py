"""What is watched: readings, their history and charts, and what a fault of one part does."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from eo_listener.audit.positions import LedgerPositions
from eo_listener.cli.serve import command
from eo_listener.cli.serve.audit_reading import last_batches
from eo_listener.cli.serve.command import Poller
from eo_listener.cli.serve.groups_section import chart
from eo_listener.cli.serve.watched import (
    ErrorLog,
    LagHistory,
    Moment,
    Newest,
    Point,
    Reading,
    Unknown,
    Watched,
)
from eo_listener.errors import KafkaError, MissingExtraError
from eo_listener.model.ledger import UNKNOWN_TIME, AppliedBatch, Head, LedgerKey
from eo_listener.offsets import OffsetRange, TopicPartition
from tests.cli.serve.made_up import CLUSTER, Clock, FakeReader, group, watched
from tests.threads import none_left
from tests.waiting import until


def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """When it begins, when it becomes another, and when it has passed; as text that is safe."""
    made, reader, _ = watched([group("g")])
    caplog.set_level(logging.INFO, logger="eo_listener")
    for error in ("away\x1b[31m", "away\x1b[31m", "refused"):
        reader.found = KafkaError(error, code="_TRANSPORT")
        for _ in range(3):
            made.try_groups(reader)
    reader.found = [group("g")]
    for _ in range(2):
        made.read_groups(reader)
    said = [record.getMessage().partition(". Fix")[0] for record in caplog.records]
    assert [one.partition(": ")[2] for one in said] == ["away\\x1b[31m", "refused", ""]
    assert said[2].endswith(" can be read again")


def test_the_first_error_is_raised_and_a_later_error_is_shown() -> None:
    """The first ends the command; after that a page says why it has no numbers."""
    made = Watched(CLUSTER, every=10.0, audit_every=None)
    reader = FakeReader()
    reader.found = KafkaError("refused", code="SASL_AUTHENTICATION_FAILED")
    with pytest.raises(KafkaError, match="refused"):
        made.read_groups(reader)
    made.try_groups(reader)
    known = made.view().groups
    assert isinstance(known, Unknown)
    assert "refused" in known.error


def test_an_audit_that_fails_hides_no_groups() -> None:
    """And groups that cannot be read hide no audit: each is known for itself."""
    clock = Clock()
    made = Watched(CLUSTER, every=10.0, audit_every=60.0, now=clock)
    made.read_groups(FakeReader([group("g")]))
    missing = MissingExtraError("reading", package="psycopg", extra="postgres")
    made.read_audit(Mock(read=Mock(side_effect=missing)))
    view = made.view()
    assert isinstance(view.groups, Reading)
    assert isinstance(view.audit, Unknown)
    assert [one.about for one in view.errors] == ["audit"]


def test_a_reading_that_was_interrupted_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C says nothing of what it has broken off."""
    made, reader, _ = watched([group("g")])
    made.close()
    reader.found = KafkaError("reading groups failed", code="_DESTROY")
    made.try_groups(reader)
    assert not caplog.records


def test_a_reading_is_current_until_one_fails_or_it_is_old() -> None:
    """Then nothing is known, since it was read; and the next one counts again."""
    newest: Newest[int] = Newest(keeps=30.0)
    assert newest.at(Moment(0, 0)) == Unknown(None, "it has not been read yet")
    newest.failed("no broker")
    assert newest.at(Moment(0, 0)) == Unknown(None, "no broker")
    first = Moment(100, 10)
    newest.took(1, first)
    known = newest.at(Moment(130, 40))
    assert isinstance(known, Reading)
    assert (known.value, known.at) == (1, first)
    assert newest.at(Moment(131, 41)) == Unknown(first, "no answer for 31 s")
    for _ in range(2):
        newest.failed("away")
        assert newest.at(Moment(102, 12)) == Unknown(first, "away")
    newest.took(2, Moment(150, 60))
    assert isinstance(newest.at(Moment(151, 61)), Reading)


def test_what_is_made_of_a_reading_is_made_once() -> None:
    """However many ask for it at the same moment."""
    made: list[int] = []

    def make(value: int) -> bytes:
        time.sleep(0.05)
        made.append(value)
        return str(value).encode()

    reading = Reading(7, Moment(0, 0))
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: reading.once("text", make), range(8))) == {b"7"}
    assert made == [7]


def test_errors_are_counted_and_bounded() -> None:
    """The same one again is one entry, the newest first; a long text is cut."""
    log = ErrorLog()
    for at in range(3):
        log.add("groups", "no broker", float(at))
        log.add("group g", "NOT_COORDINATOR", float(at))
    newest = log.newest()
    assert [one.about for one in newest] == ["group g", "groups"]
    assert {(one.times, one.first, one.last) for one in newest} == {(3, 0.0, 2.0)}
    for number in range(1000):
        log.add("groups", f"{number} " + "x" * 100_000, 10.0)
    assert sum(len(one.error) for one in log.newest()) <= 30 * 2000
    assert log.newest()[0].error.startswith("999 ")


def test_it_reads_at_an_interval_and_survives_a_fault(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours is a state of the page, with its traceback in the log, and not the end."""
    monkeypatch.setattr(command, "_PAUSE", 0.01)
    read = threading.Semaphore(0)
    failed: list[str] = []

    def fault() -> None:
        read.release()
        raise ValueError("secret")

    assert Poller("groups", fault, failed.append, every=0.01).problem, "no thread reads"
    with none_left():
        one = Poller("groups", fault, failed.append, every=0.01)
        one.start()
        for _ in range(3):
            assert read.acquire(timeout=20)
        assert one.problem is None
        assert one.stop(20.0, lambda: None)
    assert set(failed) == {"a fault in eo-listener: ValueError"}
    assert "in reading the groups" in caplog.text
    assert one.problem is None


def test_a_reading_that_hangs_is_interrupted_at_the_end() -> None:
    """And is a problem before that, once it has taken too long."""
    begun, free = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        free.wait(30)

    with none_left():
        one = Poller("groups", hang, lambda _: None, every=60.0, stuck=0.05)
        one.start()
        assert begun.wait(20)
        until(lambda: one.problem)
        # What cannot be interrupted ends with the process: it is not waited for any longer.
        before = time.monotonic()
        assert not one.stop(0.3, lambda: None)
        assert time.monotonic() - before < 5
        assert one.stop(20.0, free.set)


@pytest.mark.parametrize(
    ("readings", "points"),
    [
        # A partition that is new, was not committed before, or has gone, is no jump of the rate.
        ([[5, None], [7, 9, 3], [8]], [(None, None), (11, 0.2), (2, 0.1)]),
        # A rewind is a verdict, and not a rate below zero.
        ([[8, 1], [5, 9]], [(11, None), (6, None)]),
    ],
)
def test_a_rate_is_of_the_partitions_of_both_readings(
    readings: list[list[int | None]], points: list[tuple[int | None, float | None]]
) -> None:
    """Readings are 10 s after each other."""
    history = LagHistory()
    for number, offsets in enumerate(readings):
        history.add(10.0 * number, [group("g", offsets)])
    assert [(one.lag, one.rate) for one in history.points("g")] == points


def test_a_reading_that_failed_is_one_point_without_numbers() -> None:
    """However many fail in a row; and the rate does not reach over it."""
    history = LagHistory()
    history.add(0.0, [group("g", [5])])
    for at in (10.0, 20.0, 30.0):
        history.gap(at)
    history.add(40.0, [group("g", [6])])
    refused = [group("g", [], error="GROUP_AUTHORIZATION_FAILED")]
    assert history.gone(refused) == {}
    assert history.points("g") == (
        Point(0.0, 5, None),
        Point(10.0, None, None),
        Point(40.0, 4, None),
    )


def test_a_group_that_vanishes_is_known_for_an_hour() -> None:
    """Then nothing is kept of it; one that comes back continues where it was."""
    history = LagHistory()
    history.add(0.0, [group("a"), group("b")])
    history.add(10.0, [group("a")])
    assert history.gone([group("a")]) == {"b": 0.0}
    assert history.points("b")[-1] == Point(10.0, None, None)
    history.add(3000.0, [group("a"), group("b")])
    assert history.gone([group("a"), group("b")]) == {}
    assert len(history.points("b")) == 3
    history.add(3010.0, [group("a")])
    history.add(7000.0, [group("a")])
    assert history.gone([group("a")]) == {}
    assert history.points("b") == ()


def test_what_is_kept_is_bounded() -> None:
    """Points of a group, of all groups together, and groups; those that are gone make room."""
    history = LagHistory(points=5, total=12, groups=4)
    for at in range(20):
        history.add(float(at), [group(name) for name in "abc"])
    assert [len(history.points(name)) for name in "abc"] == [4, 4, 4]
    for at in range(20, 40):
        history.add(float(at), [group("a")])
    history.add(40.0, [group(name) for name in "aefghij"])
    kept = [name for name in "abcdefghij" if history.points(name)]
    assert kept == ["a", "e", "f", "g"]
    for number in range(1000):
        history.add(50.0 + number, [group(f"short-lived-{number}")])
    names = [f"short-lived-{number}" for number in range(1000)]
    assert sum(bool(history.points(name)) for name in names) <= 4


def lines(points: Sequence[Point], now: float) -> list[list[tuple[float, float]]]:
    """The places of each line that is drawn of the lag."""
    made = chart(points, now, "lag", lambda point: point.lag)
    drawn = [] if made is None else [line.attrib["points"] for line in made.iter("polyline")]
    pairs = ([pair.split(",") for pair in line.split()] for line in drawn)
    return [[(float(x), float(y)) for x, y in line] for line in pairs]


@pytest.mark.parametrize(
    ("lags", "drawn"),
    [
        # What is left of a gap ends there, what is right of it begins there.
        ([5, 10, None, 10, 0], [[(0, 24), (75, 1)], [(225, 1), (300, 47)]]),
        # One point is no line, nor are several that have a gap between each other.
        *(([], []), ([5], []), ([5, None, 5], [])),
        # Below zero is a group that is ahead of its log; a line of zeros is at the bottom.
        ([-5, 0, -7], [[(0, 47), (150, 47), (300, 47)]]),
    ],
)
def test_the_line_of_a_chart(
    lags: list[int | None], drawn: list[list[tuple[float, float]]]
) -> None:
    """Each run of readings without a gap is a line."""
    points = [Point(float(at), lag, None) for at, lag in enumerate(lags)]
    assert lines(points, max(len(lags) - 1.0, 1.0)) == drawn


def test_a_peak_is_kept() -> None:
    """Of many points one in each column is drawn, and it is the highest of them."""
    points = [Point(float(at), 1000 if at == 777 else 1, None) for at in range(3000)]
    (line,) = lines(points, 3000.0)
    assert len(line) == 60
    assert min(y for _, y in line) == 1


HEAD = Head(range=OffsetRange(0, 10), topic_id=None, query_id="q", run_id="r", batch_id=0)
TPS = [TopicPartition("flights", number) for number in range(2)]


def history(batches: int, *, run: str = "r", hour: int = 12) -> Iterator[AppliedBatch]:
    """Each partition's in the order of offsets, 10 a batch."""
    for tp in TPS:
        for batch in range(batches):
            gap = OffsetRange(batch * 10, batch * 10 + 3) if batch == 2 else None
            applied = OffsetRange(batch * 10, batch * 10 + 10)
            head = replace(HEAD, range=applied, batch_id=batch, run_id=run)
            at = f"2026-11-23 {hour:02}:00:{batch:02}"
            yield AppliedBatch(
                partition=tp, head=head, rows=17, verdict="next", gap=gap, applied_at=at
            )


def positions(**others: Any) -> LedgerPositions:
    heads = {tp: replace(HEAD, batch_id=number + 4) for number, tp in enumerate(TPS)}
    key = LedgerKey("delays", "flights")
    return LedgerPositions(store="SQLite file", key=key, heads=heads, **others)


def test_a_batch_is_added_up_over_its_partitions() -> None:
    """The newest first; `rows` are those of the whole batch, and count once."""
    found = last_batches(positions(), history(4), count=3)
    assert [one.batch for one in found.batches] == [3, 2, 1]
    newest, with_gap, _ = found.batches
    assert (newest.partitions, newest.offsets, newest.rows, newest.gap_offsets) == (2, 20, 17, 0)
    assert with_gap.gap_offsets == 6
    assert newest.applied_at == "2026-11-23 12:00:03"


def test_a_new_checkpoint_counts_from_zero() -> None:
    """Its batches are newer, by their time, than higher numbers of the one before."""
    both = [*history(9), *history(2, run="s", hour=13)]
    found = last_batches(positions(), both, count=3)
    assert [(one.batch, one.run) for one in found.batches] == [(1, "s"), (0, "s"), (8, "r")]


def test_a_ledger_without_a_history_has_its_heads() -> None:
    """As Kafka's: the last batch of each partition."""
    found = last_batches(positions(unfinished_batch=6), [])
    assert [(one.batch, one.rows) for one in found.batches] == [(5, None), (4, None)]
    assert found.begun == 6


def test_repairs_of_a_topic_are_no_batches() -> None:
    """Its ledger remembers what they have found, and not the batches in between."""
    found = [replace(one, rows=None, applied_at=UNKNOWN_TIME) for one in history(2)]
    assert [one.batch for one in last_batches(positions(), found).batches] == [5, 4]
