"""The tests that every `Sink` must pass, for pytest.

    class TestMySink(SinkConformance):
        def open_sink(self, target): return MySink(..., table=target)
        def read_rows(self, target): ...  # the rows that another connection sees
        def make_frame(self, rows): return self.spark.createDataFrame(rows, FRAME)

Each test needs an empty store, which an autouse fixture may create. These tests do not cover
transactions of single partitions (`per_partition`). To let pytest explain failed assertions, call
`pytest.register_assert_rewrite("eo_listener.testing.conformance")` before the import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from eo_listener.errors import ForeignWriterError, OutcomeUnknownError
from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.protocols import Sink
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.faults import Killed, broken_off, hooked, race
from eo_listener.testing.made_up_entries import (
    HOSTILE,
    QUERY,
    Heads,
    Row,
    entry_of,
    heads_of,
    plan_of,
    rows_of,
)

_TARGET = "words"
_TP = TopicPartition("flights", 0)
_OTHER = TopicPartition("flights", 1)
_FAR = 2**40
_MANY = 25_000  # Spark passes at most 10,000 rows as one record batch
_LOST = OutcomeUnknownError("the answer to COMMIT was lost")


class SinkConformance:
    """The tests of a sink. Write a subclass `Test...`, with methods for your sink and its target.

    `fault_points` and `fault_points_after` are the fault points, if any, that the sink reaches in
    each batch before and after it commits. `shared_ledger` is False if each target has its own
    ledger.
    """

    fault_points: Sequence[str] = (
        "sink.begun",
        "sink.rows-written",
        "sink.ledger-moved",
        "sink.commit-sent",
    )
    fault_points_after: Sequence[str] = ("sink.committed",)
    shared_ledger: bool = True

    # The parts that a store provides.

    def open_sink(self, target: str) -> Sink:
        """Open a new sink, as another driver would, that appends to `target` in the test's store.

        The test suite closes the sink.
        """
        raise NotImplementedError

    def read_rows(self, target: str) -> list[Row]:
        """Return the durable rows in `target`, in any order, or no rows if there is no target."""
        raise NotImplementedError

    def make_frame(self, rows: Sequence[Row]) -> Any:
        """Return a frame of `rows` for the sink, with the columns of `made_up_entries.FRAME`."""
        raise NotImplementedError

    # Helpers of the tests.

    @contextmanager
    def opened(self, target: str = _TARGET) -> Iterator[Sink]:
        """Open a sink, and close it at the end."""
        sink = self.open_sink(target)
        try:
            yield sink
        finally:
            sink.close()

    @contextmanager
    def ready(self) -> Iterator[Sink]:
        """Open a sink that has read its ledger, as a query does before its first batch."""
        with self.opened() as sink:
            sink.applied(QUERY)
            yield sink

    def write(self, sink: Sink, entry: Entry, rows: Sequence[Row] | None = None) -> Applied:
        """Apply `entry` with `rows`, by default with a row for each offset of `entry`."""
        frame = self.make_frame(rows_of(entry) if rows is None else rows)
        return sink.apply(frame, entry, plan_of(entry))

    def break_off(
        self, sink: Sink, entry: Entry, point: str, error: BaseException | None = None
    ) -> None:
        """Apply `entry`, and raise `error` (default: Killed) at the fault point `point`.

        The sink must reach that point.
        """
        error = error or Killed()
        with broken_off(point, error):
            try:
                self.write(sink, entry)
            except type(error):
                return
        raise AssertionError(f"the sink does not reach {point}")

    def check(self, rows: Sequence[Row], heads: Heads, query: str = QUERY) -> None:
        """Assert that exactly these rows and heads are durable, as a new sink reads them."""
        with self.opened() as fresh:
            heads_now = dict(fresh.applied(query))
        assert heads_now == dict(heads), f"the ledger holds {heads_now}, not {dict(heads)}"
        stored = sorted(self.read_rows(_TARGET))
        assert stored == sorted(rows), f"the target holds {stored}, not {sorted(rows)}"

    def check_refused(self, sink: Sink, entry: Entry) -> None:
        """Assert that the sink refuses `entry` because of another driver."""
        try:
            self.write(sink, entry, [(*_TP, 999, "refused")])
        except ForeignWriterError:
            return
        raise AssertionError(f"{sink.label} overwrote a head that had changed since it was read")

    # The tests.

    def test_an_empty_store_has_no_heads(self) -> None:
        """A missing ledger is created, and is still empty when it is read again."""
        with self.opened() as sink:
            assert dict(sink.applied(QUERY)) == {}
            assert dict(sink.applied(QUERY)) == {}

    def test_rows_and_heads_are_written(self) -> None:
        """A first batch leaves its rows and a head for each of its partitions."""
        entry = entry_of({}, {_TP: OffsetRange(5, 8), _OTHER: OffsetRange(0, 2)})
        with self.ready() as sink:
            assert self.write(sink, entry).rows == 5
        self.check(rows_of(entry), heads_of(entry))

    def test_a_next_batch_follows(self) -> None:
        """Heads move forward, new rows are added to earlier rows, and equal rows are all kept."""
        first = entry_of({}, {_TP: OffsetRange(0, 2)})
        with self.ready() as sink:
            self.write(sink, first)
            second = entry_of(sink.applied(QUERY), {_TP: OffsetRange(2, 4)}, batch_id=1)
            self.write(sink, second, rows_of(first))
        self.check(rows_of(first) * 2, heads_of(second))

    def test_a_batch_moves_its_own_heads_only(self) -> None:
        """The head of a partition that is not in a batch does not change."""
        first = entry_of({}, {_TP: OffsetRange(0, 2), _OTHER: OffsetRange(0, 3)})
        with self.ready() as sink:
            self.write(sink, first)
            second = entry_of(heads_of(first), {_TP: OffsetRange(2, 4)}, batch_id=1)
            self.write(sink, second)
        rows = [*rows_of(first), *rows_of(second)]
        self.check(rows, {**heads_of(first), **heads_of(second)})

    def test_a_large_batch_is_written_whole(self) -> None:
        """A batch of one partition with more rows than a record batch holds is written whole."""
        entry = entry_of({}, {_TP: OffsetRange(0, _MANY)})
        with self.ready() as sink:
            assert self.write(sink, entry).rows == _MANY
        stored = sorted(self.read_rows(_TARGET))
        assert len(stored) == _MANY, f"the target holds {len(stored)} of {_MANY} rows"
        assert stored == sorted(rows_of(entry)), "the target holds other rows than the batch had"

    def test_heads_are_exact(self) -> None:
        """Offsets and batch ids beyond 32 bits, and an unknown topic id, come back unchanged."""
        ranges = {_TP: OffsetRange(_FAR, _FAR + 1), _OTHER: OffsetRange(0, 0)}
        entry = entry_of({}, ranges, batch_id=_FAR, topic_id=None)
        with self.ready() as sink:
            self.write(sink, entry)
        self.check(rows_of(entry), heads_of(entry))

    def test_many_partitions(self) -> None:
        """A batch of a thousand partitions moves the head of each."""
        ranges = {TopicPartition("wide", number): OffsetRange(0, 1) for number in range(1000)}
        with self.ready() as sink:
            self.write(sink, entry_of({}, ranges), [])
            later = {tp: OffsetRange(1, 2) for tp in ranges}
            second = entry_of(sink.applied(QUERY), later, batch_id=1)
            self.write(sink, second, [])
        self.check([], heads_of(second))

    def test_a_batch_without_rows_moves_the_head(self) -> None:
        """Records that the query filtered out count as applied too."""
        entry = entry_of({}, {_TP: OffsetRange(0, 10)})
        with self.ready() as sink:
            assert self.write(sink, entry, []).rows == 0
        self.check([], heads_of(entry))

    def test_a_batch_without_ranges_marks_the_heads(self) -> None:
        """A batch whose rows come only from state is written, and the heads record that batch."""
        first = entry_of({}, {_TP: OffsetRange(0, 2)})
        with self.ready() as sink:
            self.write(sink, first)
            empty = entry_of(sink.applied(QUERY), {_TP: OffsetRange(2, 2)}, batch_id=1)
            self.write(sink, empty, [(*_TP, 0, "from state")])
        self.check([*rows_of(first), (*_TP, 0, "from state")], heads_of(empty))

    def test_an_accepted_gap_is_no_obstacle(self) -> None:
        """A move that follows an accepted gap moves the head."""
        entry = entry_of({}, {_TP: OffsetRange(5, 6)}, gap=OffsetRange(0, 5))
        with self.ready() as sink:
            self.write(sink, entry)
        self.check(rows_of(entry), heads_of(entry))

    def test_a_moved_head_is_not_overwritten(self) -> None:
        """Nothing is written if a head is gone, or has another offset, batch, query id or run."""
        first = entry_of({}, {_TP: OffsetRange(0, 2), _OTHER: OffsetRange(0, 2)})
        current = heads_of(first)
        ranges = {_OTHER: OffsetRange(2, 4), _TP: OffsetRange(2, 4)}
        wrong = (
            replace(current[_TP], range=OffsetRange(0, 1)),
            replace(current[_TP], batch_id=7),
            replace(current[_TP], query_id="query-2"),
            replace(current[_TP], run_id="run-2"),
        )
        with self.ready() as sink:
            self.write(sink, first)
            for head in wrong:
                self.check_refused(sink, entry_of({**current, _TP: head}, ranges, batch_id=1))
                turned = dict(reversed(ranges.items()))
                self.check_refused(sink, entry_of({**current, _TP: head}, turned, batch_id=1))
            self.check_refused(sink, entry_of({_OTHER: current[_OTHER]}, ranges, batch_id=1))
            extra = TopicPartition("flights", 2)
            more = {**current, extra: current[_TP]}
            unknown = entry_of(more, {**ranges, extra: OffsetRange(2, 3)})
            self.check_refused(sink, unknown)
            self.check(rows_of(first), current)
            second = entry_of(current, ranges, batch_id=1)
            self.write(sink, second)
        self.check([*rows_of(first), *rows_of(second)], heads_of(second))

    def test_the_same_entry_is_written_once(self) -> None:
        """An entry that is applied again is refused, by the same sink and by another sink."""
        entry = entry_of({}, {_TP: OffsetRange(0, 2)})
        with self.ready() as sink, self.opened() as second:
            self.write(sink, entry)
            self.check_refused(sink, entry)
            self.check_refused(second, entry)
        self.check(rows_of(entry), heads_of(entry))

    def test_queries_and_sinks_do_not_meet(self) -> None:
        """A sink keeps the heads of queries apart, and a store keeps the heads of sinks apart."""
        mine = entry_of({}, {_TP: OffsetRange(0, 2)})
        yours = entry_of({}, {_TP: OffsetRange(10, 11)}, query="other", run_id="run-9")
        with self.ready() as sink, self.opened("second") as second:
            self.write(sink, mine)
            self.write(sink, yours)
            assert dict(second.applied(QUERY)) == {}
            self.write(second, mine)
            assert dict(sink.applied(QUERY)) == heads_of(mine)
            assert dict(sink.applied("other")) == heads_of(yours)
        assert sorted(self.read_rows("second")) == sorted(rows_of(mine))
        self.check([*rows_of(mine), *rows_of(yours)], heads_of(mine))

    def test_what_a_query_id_has_moved_is_found_under_any_name(self) -> None:
        """`moved_by` returns all heads of a query id, and no others, keyed by sink and query."""
        mine = entry_of({}, {_TP: OffsetRange(0, 2), _OTHER: OffsetRange(0, 1)})
        old = entry_of({}, {_TP: OffsetRange(10, 11)}, query=HOSTILE[0])
        taken = entry_of(heads_of(mine), {_TP: OffsetRange(2, 3)})
        with self.opened() as sink, self.opened("second") as second:
            assert not any((sink.applied(QUERY), second.applied(QUERY), sink.moved_by("query-1")))
            for entry in (mine, old, replace(taken, query_id="query-2")):
                self.write(sink, entry)
            self.write(second, mine)
            assert sink.moved_by("query-1") == {
                (sink.key, QUERY): {_OTHER: mine.head(_OTHER)},  # query-2 has moved that of _TP
                (sink.key, HOSTILE[0]): heads_of(old),
                **({(second.key, QUERY): heads_of(mine)} if self.shared_ledger else {}),
            }

    def test_names_are_data(self) -> None:
        """Quotes, line ends, placeholders and SQL in any name or value come back unchanged."""
        for word in HOSTILE:
            with self.opened(f"rows of {word}") as sink:
                tp = TopicPartition(word, 3)
                sink.applied(word)
                one_range = OffsetRange(0, 1)
                entry = entry_of({}, {tp: one_range}, query=word, run_id=word, topic_id=word)
                self.write(sink, entry)
                assert dict(sink.applied(word)) == heads_of(entry), f"query {word!r}"
                after = entry_of(heads_of(entry), {tp: OffsetRange(1, 2)}, query=word, run_id=word)
                self.write(sink, after)
                assert dict(sink.applied(word)) == heads_of(after), f"query {word!r}"
            stored = sorted(self.read_rows(f"rows of {word}"))
            assert stored == sorted([*rows_of(entry), *rows_of(after)]), f"target {word!r}"

    def test_a_crash_before_the_commit_leaves_nothing(self) -> None:
        """A driver that is killed at any point before the commit leaves neither rows nor heads."""
        first = entry_of({}, {_TP: OffsetRange(0, 2)})
        second = entry_of(heads_of(first), {_TP: OffsetRange(2, 4)}, batch_id=1)
        with self.ready() as sink:
            self.write(sink, first)
        for point in self.fault_points:
            with self.ready() as sink:
                self.break_off(sink, second, point)
            self.check(rows_of(first), heads_of(first))
        with self.opened() as sink:
            self.write(sink, second)
        self.check([*rows_of(first), *rows_of(second)], heads_of(second))

    def test_a_failed_batch_leaves_the_sink_usable(self) -> None:
        """After an error in the middle of a batch, the same sink writes the same batch once."""
        entry = entry_of({}, {_TP: OffsetRange(0, 2)})
        with self.ready() as sink:
            for point in self.fault_points:
                self.break_off(sink, entry, point)
            self.write(sink, entry)
        self.check(rows_of(entry), heads_of(entry))

    def test_a_crash_after_the_commit_keeps_all(self) -> None:
        """A committed batch stays, and a second attempt is refused."""
        entry = entry_of({}, {_TP: OffsetRange(0, 2)})
        for point in self.fault_points_after[:1]:
            with self.ready() as sink:
                self.break_off(sink, entry, point)
            with self.opened() as sink:
                self.check_refused(sink, entry)
            self.check(rows_of(entry), heads_of(entry))

    def test_an_unknown_outcome_is_settled_by_the_ledger(self) -> None:
        """If the answer to the commit is lost, the ledger shows whether a retry must write."""
        heads: Heads = {}
        rows: list[Row] = []
        points = (*self.fault_points[-1:], *self.fault_points_after[:1])
        with self.ready() as sink:
            for number, point in enumerate(points):
                entry = entry_of(heads, {_TP: OffsetRange(number, number + 1)}, batch_id=number)
                self.break_off(sink, entry, point, _LOST)
                if dict(sink.applied(QUERY)) == heads:
                    self.write(sink, entry)
                heads, rows = heads_of(entry), rows + rows_of(entry)
                self.check(rows, heads)

    def test_a_reader_sees_all_or_nothing(self) -> None:
        """During a batch, a reader sees rows and heads as before the batch, or as after it."""
        first = entry_of({}, {_TP: OffsetRange(0, 2)})
        second = entry_of(heads_of(first), {_TP: OffsetRange(2, 4)}, batch_id=1)
        before = (sorted(rows_of(first)), heads_of(first))
        after = (sorted([*rows_of(first), *rows_of(second)]), heads_of(second))
        checked: list[tuple[str, bool, bool]] = []
        with self.ready() as sink, self.opened() as reader:
            self.write(sink, first)

            def snapshot(point: str) -> None:
                if point.startswith("sink."):
                    now = (sorted(self.read_rows(_TARGET)), dict(reader.applied(QUERY)))
                    checked.append((point, now == before, now == after))

            with hooked(snapshot):
                self.write(sink, second)
        for point, is_before, is_after in checked:
            assert is_before or is_after, f"at {point} rows and heads do not match"
            if point in (*self.fault_points, *self.fault_points_after):  # else either is right
                assert is_after == (point in self.fault_points_after), f"at {point}"
        assert len(checked) >= len(self.fault_points)

    def test_of_two_writers_one_wins(self) -> None:
        """If two drivers write the same range at the same time, one writes, and one is refused."""
        heads: Heads = {}
        rows: list[Row] = []
        with self.opened() as first, self.opened() as second:
            first.applied(QUERY)
            for number in range(4):
                one_range = {_TP: OffsetRange(number, number + 1)}
                runs = [
                    entry_of(heads, one_range, batch_id=number, run_id=f"{name}-{number}")
                    for name in ("one", "two")
                ]
                frames = [self.make_frame(rows_of(entry)) for entry in runs]
                won = race((first, second), frames, runs)
                assert won.count(True) == 1, f"{won.count(True)} of two writers wrote"
                entry = runs[won.index(True)]
                heads, rows = heads_of(entry), rows + rows_of(entry)
                self.check(rows, heads)

    def test_closing_is_not_the_end(self) -> None:
        """A sink can be closed twice, and closing loses nothing."""
        entry = entry_of({}, {_TP: OffsetRange(0, 2)})
        with self.ready() as sink:
            self.write(sink, entry)
            sink.close()
        self.check(rows_of(entry), heads_of(entry))
