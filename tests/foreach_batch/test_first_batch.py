"""What is believed of a partition that the ledger does not have, and what is not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from eo_listener.batch_guard.errors import SinkLedger
from eo_listener.batch_guard.judge import Judgement, OtherHeads, is_unknown
from eo_listener.errors import GapError, NotInLedgerError
from eo_listener.events import BatchApplied
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.model.ledger import BatchVerdict, Head, LedgerKey
from eo_listener.model.ledger_place import LedgerPlace
from eo_listener.offsets import TopicPartition
from eo_listener.testing import MemorySink, MemoryStore
from tests.foreach_batch.plans import P0, P1, P2, Ranges, head_of, judged, plan_of
from tests.foreach_batch.stage import (
    TWO,
    Crash,
    Plans,
    Run,
    Stage,
    crashing,
    frame_of,
    rows_of,
    stage_of,
)

SINK = "delays"
OLD = LedgerKey(SINK, "old")
TABLE = LedgerKey("public.old", "flights")


def first(
    ranges: Ranges,
    *,
    batch_id: int = 7,
    continued: tuple[TopicPartition, ...] = (P0, P1),
    heads: Mapping[TopicPartition, Head] | None = None,
    other_heads: Mapping[LedgerKey, Mapping[TopicPartition, Head]] | None = None,
    log_starts: Mapping[TopicPartition, int] | None = None,
    **how: Any,
) -> Judgement:
    """Judge a batch by a ledger that has `heads`, and `other_heads` under other names."""
    plan = plan_of(
        ranges,
        batch_id=batch_id,
        continued=frozenset(continued),
        log_starts=log_starts or {},
    )
    beside = OtherHeads(sink=SINK, heads=other_heads or {})
    return judged(plan, heads or {}, other_heads=beside, **how)


@pytest.mark.parametrize(
    ("ranges", "batch_id", "continued"),
    [
        ({P0: (0, 5)}, 0, ()),  # from the earliest offset
        ({P0: (100, 105), P1: (7, 7)}, 0, ()),  # from the latest, a timestamp or a ledger
        ({P0: (0, 5)}, 7, ()),  # a topic that a pattern matches only now
        ({P0: (0, 5)}, 7, (P0,)),  # empty until now
        ({P0: (0, 0)}, 7, (P0,)),
        ({P0: (5, 9)}, 7, ()),  # a source that was added in mid-stream
    ],
)
def test_where_a_query_begins_it_is_believed(
    ranges: Ranges, batch_id: int, continued: tuple[TopicPartition, ...]
) -> None:
    """Of what no earlier batch has read, or from offset 0, nothing can be missing."""
    found = first(ranges, batch_id=batch_id, continued=continued)
    assert list(found.entry.moves) == list(ranges)
    assert not found.skipped
    assert not found.gaps


def test_a_new_partition_is_believed_beside_others() -> None:
    """It begins at offset 0, and no earlier batch has read it."""
    found = first({P0: (5, 9), P2: (0, 3)}, heads={P0: head_of(0, 5)})
    assert found.entry.moves[P2].verdict is BatchVerdict.FIRST
    assert not found.skipped


@pytest.mark.parametrize("planned", [(5, 9), (5, 5)])
@pytest.mark.parametrize("beside", [{}, {P1: head_of(0, 3)}])
def test_a_head_that_is_not_there_is_doubted(
    planned: tuple[int, int], beside: dict[TopicPartition, Head]
) -> None:
    """An emptied store, a deleted row, a sink that is new: nothing is written, unless accepted."""
    ranges = {P0: planned, P1: (3, 6)} if beside else {P0: planned}
    for on_gap in ("fail", "accept"):
        with pytest.raises(NotInLedgerError, match="does not have them") as raised:
            first(ranges, heads=beside, on_gap=on_gap)
        assert raised.value.ranges == {P0: (0, 5)}
        assert 'on_first="accept"' in str(raised.value)
    found = first(ranges, heads=beside, on_first="accept")
    assert found.entry.moves[P0].range == planned
    assert found.entry.moves[P0].gap == (0, 5)
    assert found.skipped == {P0: (0, 5)}
    assert found.gaps == {}


def test_what_is_missing_in_a_batch_without_offsets_is_doubted() -> None:
    """Its rows come from state of which the ledger knows nothing, and the heads of it neither."""
    with pytest.raises(NotInLedgerError) as raised:
        first({P0: (5, 5), P1: (3, 3)})
    assert raised.value.ranges == {P0: (0, 5), P1: (0, 3)}
    found = first({P0: (5, 5), P1: (3, 3)}, on_first="accept")
    assert found.skipped == {P0: (0, 5), P1: (0, 3)}


def test_records_that_are_lost_besides_are_a_gap_of_their_own() -> None:
    """That the ledger begins late is no consent to what Kafka has deleted since."""
    with pytest.raises(GapError) as raised:
        first({P0: (5, 9)}, log_starts={P0: 7}, on_first="accept")
    assert raised.value.ranges == {P0: (5, 7)}
    found = first({P0: (5, 9)}, log_starts={P0: 7}, on_first="accept", on_gap="accept")
    assert found.entry.moves[P0].gap == (0, 7)


@pytest.mark.parametrize(
    ("batch_id", "planned", "head"),
    [
        (0, (0, 5), (0, 5)),
        (7, (5, 9), (5, 9)),
        (7, (5, 11), (5, 9)),  # planned again with another end
        (7, (9, 9), (9, 9)),  # rows of state alone
        (6, (2, 5), (5, 9)),  # an older checkpoint besides
        (9, (5, 9), (0, 7)),  # by its offsets, though its number is above that of the head
    ],
)
def test_rows_that_the_sink_has_under_an_old_name_are_never_written_again(
    batch_id: int, planned: tuple[int, int], head: tuple[int, int]
) -> None:
    """The query was renamed with its last batch in the sink, and not in Spark's commits."""
    old = {OLD: {P0: head_of(*head, batch_id=7 if batch_id else 0)}}
    continued = (P0,) if batch_id else ()
    for on_first in ("fail", "accept"):
        with pytest.raises(NotInLedgerError, match="already has it") as raised:
            first(
                {P0: planned},
                batch_id=batch_id,
                continued=continued,
                other_heads=old,
                on_first=on_first,
            )
        assert raised.value.ranges == {P0: head}
        assert 'name="old"' in str(raised.value)
        assert "of 'old'" in str(raised.value)


def test_another_name_that_ends_where_the_batch_begins_is_reported() -> None:
    """Nothing would be lost: the old name goes on, or by consent the new one."""
    old = {OLD: {P0: head_of(0, 5)}}
    with pytest.raises(NotInLedgerError, match="under another name") as raised:
        first({P0: (5, 9)}, other_heads=old)
    assert raised.value.ranges == {P0: (0, 5)}
    assert 'name="old"' in str(raised.value)
    assert "already has it" not in str(raised.value)
    assert first({P0: (5, 9)}, other_heads=old, on_first="accept").skipped == {P0: (0, 5)}


@pytest.mark.parametrize("continued", [(), (P0,)])
def test_another_name_that_has_nothing_of_a_partition_does_not_stop_its_beginning(
    continued: tuple[TopicPartition, ...],
) -> None:
    """Its head was made by an empty range, and the batch begins at offset 0."""
    old = {OLD: {P0: head_of(0, 0)}}
    found = first({P0: (0, 5)}, other_heads=old, continued=continued)
    assert found.entry.moves[P0].verdict is BatchVerdict.FIRST
    assert not found.skipped


def test_another_table_is_reported_and_may_be_left() -> None:
    """The table or its schema was renamed between two batches: a new one begins by consent."""
    there = {TABLE: {P0: head_of(0, 5, batch_id=6)}}
    with pytest.raises(NotInLedgerError, match=r"of public\.old") as raised:
        first({P0: (5, 9)}, other_heads=there)
    assert "UPDATE" not in str(raised.value)
    assert first({P0: (5, 9)}, other_heads=there, on_first="accept").verdict is BatchVerdict.FIRST


@pytest.mark.parametrize(
    ("batch_id", "planned", "head"), [(0, (0, 5), (0, 5)), (7, (5, 9), (5, 9)), (7, (9, 9), (9, 9))]
)
def test_rows_that_another_table_has_are_not_written_by_consent(
    batch_id: int, planned: tuple[int, int], head: tuple[int, int]
) -> None:
    """Its last batch is not in Spark's commits, and the table may be the same one, renamed."""
    key = LedgerKey("my 'old'", "it's")
    there = {key: {P0: head_of(*head, batch_id=batch_id)}}
    both = {TABLE: {P0: head_of(0, 5, batch_id=batch_id - 1)}, **there}
    continued = (P0,) if batch_id else ()
    for other_heads in (there, both if batch_id else there):
        for on_first in ("fail", "accept"):
            with pytest.raises(NotInLedgerError, match="another table") as raised:
                first(
                    {P0: planned},
                    batch_id=batch_id,
                    continued=continued,
                    other_heads=other_heads,
                    on_first=on_first,
                    ledger=SinkLedger(SINK, LedgerPlace(address="LEDGER")),
                )
            assert raised.value.ranges == {P0: head}
            typed = re.search(r"ledger rename LEDGER (.*) --execute", str(raised.value.fix))
            assert typed is not None
            words = ["--sink", "my 'old'", "--query", "it's", "--to-sink", "delays"]
            assert shlex.split(typed[1]) == words
            assert 'name="it\'s"' in str(raised.value.fix)


@pytest.mark.parametrize(("old", "is_back"), [("public.old", False), ("archive.delays", True)])
def test_a_table_is_to_be_moved_back_only_from_another_schema(old: str, is_back: bool) -> None:
    """Each schema has a ledger of its own, and `ledger rename` changes names in one of them."""
    with pytest.raises(NotInLedgerError, match=re.escape(old)) as raised:
        first(
            {P0: (0, 5)},
            batch_id=0,
            continued=(),
            other_heads={LedgerKey(old, "flights"): {P0: head_of(0, 5, batch_id=0)}},
            ledger=SinkLedger("public.delays", LedgerPlace(address="LEDGER", schema="public")),
        )
    assert ("SET SCHEMA" in str(raised.value.fix)) is is_back


def test_of_several_names_that_of_the_same_sink_counts() -> None:
    """A table left behind must not hide the rows that this one has."""
    both = {
        TABLE: {P0: head_of(5, 99, batch_id=9)},
        OLD: {P0: head_of(5, 9, batch_id=7)},
        LedgerKey(SINK, "older"): {P0: head_of(0, 2, batch_id=1)},
    }
    for order in (both, dict(reversed(both.items()))):
        with pytest.raises(NotInLedgerError, match="already has it") as raised:
            first({P0: (5, 9)}, other_heads=order, on_first="accept")
        assert raised.value.ranges == {P0: (5, 9)}


def test_another_name_of_other_partitions_says_nothing() -> None:
    """A head is compared with its own partition."""
    old = {OLD: {P2: head_of(0, 9, batch_id=9)}}
    assert first({P0: (0, 5)}, continued=(), other_heads=old).verdict is BatchVerdict.FIRST


def test_only_what_the_ledger_lacks_is_asked_for() -> None:
    """A ledger that has each partition needs no second read, so it costs nothing."""
    heads = {P0: head_of(0, 5), P1: head_of(0, 3)}
    assert not is_unknown(plan_of({P0: (5, 9), P1: (3, 3)}), heads)
    assert not is_unknown(plan_of({P0: (5, 9)}), heads)
    assert is_unknown(plan_of({P0: (5, 9), P2: (0, 0)}), heads)
    assert is_unknown(plan_of({}, sources={0: {}}), {})


READ = frozenset([P0, P1])


QUIET = {1: {P0: (100, 103), P1: (7, 7)}, 2: {P0: (103, 105), P1: (7, 9)}}
BEGAN = {P0: 100, P1: 7}


def test_batches_without_offsets_need_no_ledger() -> None:
    """A function may return by itself while nothing has come: asked once, and only in doubt."""
    sink = MemorySink()
    stage = Stage(Plans(QUIET, continued=READ, initial=BEGAN), [sink])
    stage.run(1)
    stage.run(2)
    assert len(sink.rows) == 7
    assert stage.plans.asked == 1
    told = stage.events[0]
    assert isinstance(told, BatchApplied)
    assert (told.gaps, told.skipped) == ({}, {})


def test_each_sink_is_judged_by_where_the_query_began() -> None:
    """Two that begin with the batch; one that is emptied later has lost the first of two."""
    store = MemoryStore()
    sinks = MemorySink(store, key="one"), MemorySink(store, key="two")
    stage = Stage(Plans(QUIET, continued=READ, initial=BEGAN), list(sinks))
    stage.run(1)
    store.heads["two", "flights"] = {}
    with pytest.raises(NotInLedgerError) as raised:
        stage.run(2)
    assert raised.value.ranges == {P0: (0, 103)}
    assert rows_of(stage) == [3, 3]


@pytest.mark.parametrize("initial", [{P1: 7}, {P0: 0, P1: 7}, {P0: 101, P1: 7}])
def test_what_began_elsewhere_is_doubted(initial: dict[TopicPartition, int]) -> None:
    """A partition that came later, one that was read, and one that Spark went back in."""
    stage = Stage(Plans(QUIET, continued=READ, initial=initial), [MemorySink()])
    with pytest.raises(NotInLedgerError) as raised:
        stage.run(1)
    assert raised.value.ranges == {P0: (0, 100)}


def test_a_beginning_that_cannot_be_read_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The batch is doubted as ever, and the log says why that is all that can be done."""
    stage = Stage(Plans(QUIET, continued=READ, unreadable=True), [MemorySink()])
    with pytest.raises(NotInLedgerError):
        stage.run(1)
    assert "sources/0/0 cannot be read" in caplog.text
    stage.run(1, on_first="accept")
    assert stage.plans.asked == 2


def test_a_name_that_had_no_row_is_left_without_consent() -> None:
    """The query was renamed before its first record: nothing is under the old name but heads."""
    sink = MemorySink()
    ranges = {0: {P0: (100, 100), P1: (7, 7)}, **QUIET}
    stage = Stage(Plans(ranges, initial=BEGAN), [sink])
    stage.run(0)
    stage.plans.continued = READ
    stage.run(1, name="new")
    assert len(sink.rows) == 3
    with pytest.raises(NotInLedgerError, match="already has it"):
        stage.run(1)


def test_a_sink_that_is_added_is_taken_up_by_consent_alone() -> None:
    """Beside one that has the query, in the same store, it begins in the middle."""
    store = MemoryStore()
    one, two = MemorySink(store, key="one"), MemorySink(store, key="two")
    stage = stage_of(one)
    stage.run(0)
    stage.sinks.append(two)
    stage.plans.continued = READ
    with pytest.raises(NotInLedgerError, match="new to a query"):
        stage.run(1)
    assert rows_of(stage) == [3, 0]
    stage.run(1, on_first="accept")
    assert rows_of(stage) == [7, 4]
    stage.run(1)  # the consent is needed no more


def test_a_crash_between_two_sinks_accuses_nobody() -> None:
    """In the first batch the one that lacks it is first, though the store has the query."""
    store = MemoryStore()
    sinks = MemorySink(store, key="one"), MemorySink(store, key="two")
    stage = stage_of(*sinks)
    with crashing("batch.applied"), pytest.raises(Crash):
        stage.run(0)
    stage.run(0)
    assert rows_of(stage) == [3, 3]


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")])
def test_a_crash_between_two_functions_accuses_nobody(names: tuple[str, str]) -> None:
    """Two exactly_once(...) of one sink, a name each: after a crash the second is not renamed."""
    sink = MemorySink()
    stage = stage_of(sink)

    def both(number: int) -> None:
        run = Run(stage.plans, number)
        for name in names:
            each = BatchRunner(run, stage.sinks, stage.frames, name=name, process=stage.process)
            each.run(frame_of(TWO[0]), 0)

    with crashing("batch.applied"), pytest.raises(Crash):
        both(1)
    both(2)
    both(3)
    assert len(sink.rows) == 6


def test_a_sink_beside_one_that_has_the_batch_is_taken_up() -> None:
    """Added when the last batch was not in Spark's commits: both are of one run."""
    store = MemoryStore()
    one, two = MemorySink(store, key="one"), MemorySink(store, key="two")
    stage = stage_of(one)
    for batch in range(2):
        stage.run(batch)
        stage.plans.continued = READ
    stage.sinks[:] = [two, one]
    stage.run(1, on_first="accept")
    assert (len(one.rows), len(two.rows)) == (7, 4)


def test_the_other_names_are_asked_for_only_where_a_head_is_missing() -> None:
    """Once in a run, and once more for a partition that is new; never again."""
    sink = MemorySink()
    asked = Mock(wraps=sink.moved_by)
    sink.moved_by = asked  # type: ignore[method-assign]  # to count its calls
    more = {2: {P0: (5, 6), P1: (2, 2), P2: (0, 1)}, 3: {P0: (6, 7), P1: (2, 2), P2: (1, 1)}}
    stage = Stage(Plans({**TWO, **more}), [sink])
    for numbers, times in (((0, 1), 1), ((1, 2, 3), 3), ((3,), 4)):
        batches = stage.batches()
        for number in numbers:
            batches.run(frame_of(stage.plans.ranges[number]), number)
        assert asked.call_count == times
    assert {call.args for call in asked.call_args_list} == {("q",)}


def test_a_query_that_is_renamed_back_doubles_nothing() -> None:
    """Its first name has heads too, at which the batch would continue."""
    sink = MemorySink()
    stage = stage_of(sink)
    stage.run(0, name="one")
    stage.plans.continued = READ
    stage.run(1, name="two", on_first="accept")
    for on_first in ("fail", "accept"):
        with pytest.raises(NotInLedgerError, match='name="two"'):
            stage.run(1, name="one", on_first=on_first)
    assert len(sink.rows) == 7
