"""The judgement of a planned batch by what a sink has applied."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener import exactly_once, starting_offsets
from eo_listener.batch_guard.error_kinds import BatchErrorKind
from eo_listener.batch_guard.errors import BatchErrors, SinkLedger
from eo_listener.batch_guard.judge import Judgement, OtherHeads
from eo_listener.errors import (
    GapError,
    GuardError,
    NotInLedgerError,
    OverlapError,
    PartialReplayError,
    PartitionVanishedError,
    RegressionError,
    SettingsError,
    TopicRecreatedError,
)
from eo_listener.model.ledger import BatchVerdict, Head, LedgerKey
from eo_listener.model.ledger_place import LedgerPlace
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from tests.foreach_batch.plans import P0, P1, P2, U0, Ranges, head_of, judged, plan_of, refused

IN_FILE = SinkLedger("delays", LedgerPlace(address="sqlite:/x.db"))
IN_TOPIC = SinkLedger("out", LedgerPlace(address="kafka://k:9092/l"))


@pytest.mark.parametrize(
    ("head", "planned", "verdict"),
    [
        (None, (0, 5), BatchVerdict.FIRST),
        (None, (3, 5), BatchVerdict.FIRST),
        ((0, 5), (5, 9), BatchVerdict.NEXT),
        ((5, 5), (5, 9), BatchVerdict.NEXT),  # a head that was made or marked by an empty range
        ((0, 5), (0, 5), BatchVerdict.REPLAY),
    ],
)
def test_what_continues_or_repeats_is_recognised_by_its_range(
    head: tuple[int, int] | None, planned: tuple[int, int], verdict: BatchVerdict
) -> None:
    """First, next and replayed ranges are recognised, whatever the batch's number is."""
    heads = {} if head is None else {P0: head_of(*head)}
    for batch_id in (0, 6, 7, 1000):
        found = judged(plan_of({P0: planned}, batch_id=batch_id), heads)
        assert found.verdict is verdict
        moves = found.entry.moves
        if verdict is BatchVerdict.REPLAY:
            assert not moves
            assert found.replayed == {P0: planned}
        else:
            assert moves[P0].range == planned
            assert moves[P0].verdict is verdict
            assert moves[P0].expected == heads.get(P0)
            assert moves[P0].gap is None


@pytest.mark.parametrize(
    ("head", "planned", "error", "offsets"),
    [
        ((0, 5), (7, 9), GapError, (5, 7)),
        ((0, 5), (3, 9), OverlapError, (3, 5)),
        ((2, 5), (0, 9), OverlapError, (0, 5)),
        ((2, 5), (0, 5), OverlapError, (0, 5)),
        ((2, 5), (4, 5), OverlapError, (4, 5)),
        ((2, 5), (0, 4), RegressionError, (0, 5)),
        ((2, 5), (0, 2), RegressionError, (0, 5)),
        ((2, 5), (2, 4), RegressionError, (2, 5)),
        ((2, 5), (5, 3), RegressionError, (3, 5)),
        (None, (5, 3), RegressionError, (3, 5)),
    ],
)
def test_whatever_does_not_continue_is_an_error_of_its_kind(
    head: tuple[int, int] | None,
    planned: tuple[int, int],
    error: type[GuardError],
    offsets: tuple[int, int],
) -> None:
    """Gaps, overlaps and steps back are distinguished, with the offsets in question."""
    heads = {} if head is None else {P0: head_of(*head)}
    raised = refused(error, plan_of({P0: planned}), heads)
    assert raised.ranges == {P0: offsets}
    assert f"t-0 {OffsetRange(*offsets)}" in str(raised)


def test_only_a_gap_can_be_accepted() -> None:
    """With on_gap="accept" the head moves over the gap; all else stays an error."""
    found = judged(plan_of({P0: (7, 9)}), {P0: head_of(0, 5)}, on_gap="accept")
    assert found.verdict is BatchVerdict.NEXT
    assert found.entry.moves[P0].gap == (5, 7)
    assert found.gaps == {P0: (5, 7)}
    assert found.skipped == {}
    for planned in ((3, 9), (0, 4), (5, 3)):
        with pytest.raises((OverlapError, RegressionError)):
            judged(plan_of({P0: planned}), {P0: head_of(2, 5)}, on_gap="accept")


@pytest.mark.parametrize(
    ("head", "planned", "log_start", "gap"),
    [
        ((0, 5), (5, 9), 7, (5, 7)),
        ((0, 5), (5, 9), 50, (5, 9)),
        (None, (5, 9), 6, (5, 6)),
        ((0, 4), (5, 9), 7, (4, 7)),
    ],
)
def test_records_that_kafka_deleted_unread_are_a_gap(
    head: tuple[int, int] | None,
    planned: tuple[int, int],
    log_start: int,
    gap: tuple[int, int],
) -> None:
    """What failOnDataLoss=false hides is found by the log's start, joined with a gap before it."""
    heads = {} if head is None else {P0: head_of(*head)}
    plan = plan_of({P0: planned}, log_starts={P0: log_start})
    assert refused(GapError, plan, heads).ranges == {P0: gap}
    assert judged(plan, heads, on_gap="accept").gaps == {P0: gap}


def test_a_replay_needs_no_log() -> None:
    """Records of an applied range may be deleted: nothing of it is read any more."""
    plan = plan_of({P0: (0, 5)}, log_starts={P0: 5}, log_ends={P0: 5})
    assert judged(plan, {P0: head_of(0, 5)}).verdict is BatchVerdict.REPLAY


def test_a_plan_beyond_the_end_of_the_log_is_refused() -> None:
    """A log that was cut back is named, and cannot be accepted."""
    plan = plan_of({P0: (5, 9)}, log_ends={P0: 8})
    for on_gap in ("fail", "accept"):
        assert refused(RegressionError, plan, {P0: head_of(0, 5)}, on_gap=on_gap).ranges == {
            P0: (8, 9)
        }
    assert judged(replace(plan, log_ends={P0: 9}), {P0: head_of(0, 5)}).verdict is BatchVerdict.NEXT


def test_empty_ranges_have_no_verdict() -> None:
    """Beside data an empty range moves nothing; where there is no head yet it makes one."""
    heads = {P0: head_of(0, 5), P1: head_of(0, 3)}
    plan = plan_of({P0: (5, 9), P1: (3, 3), P2: (4, 4)})
    moves = judged(plan, heads).entry.moves
    assert list(moves) == [P0, P2]
    assert moves[P2].verdict is None
    assert (moves[P2].range, moves[P2].expected) == ((4, 4), None)
    off = plan_of({P0: (5, 9), P1: (1, 1), P2: (9, 9)})  # judged by their next offsets
    assert list(judged(off, heads | {P2: head_of(0, 4)}).entry.moves) == [P0]


@pytest.mark.parametrize("alone", [False, True])
def test_a_range_that_another_query_has_applied_is_no_replay(alone: bool) -> None:
    """Under one name two queries, or a query from its beginning again, are told and refused."""
    heads = {P0: head_of(0, 5, query_id="other"), P1: head_of(0, 3)}
    for planned in ({P0: (0, 5)}, {P0: (0, 5), P1: (3, 3)}, {P0: (0, 5), P1: (0, 3)}):
        raised = refused(
            OverlapError,
            plan_of({P1: (3, 3)} | planned),
            heads,
            on_gap="accept",
            per_partition=alone,
        )
        assert raised.ranges == {P0: (0, 5)}
        assert "a name of its own" in str(raised)
        assert "starting_offsets(ledger=" in str(raised)


def test_a_topic_that_kafka_no_longer_has_is_refused() -> None:
    """Asked and not there is another answer than not asked; what is not read needs no log."""
    heads = {P0: head_of(0, 5)}
    plan = plan_of({P0: (5, 9)}, topic_ids={})
    assert judged(plan, heads).verdict is BatchVerdict.NEXT
    gone = replace(plan, has_log_bounds=True)
    for known in (heads, {}):
        assert refused(PartitionVanishedError, gone, known, on_gap="accept").ranges == {P0: (5, 9)}
    assert judged(replace(gone, log_ends={P0: 9}), heads).verdict is BatchVerdict.NEXT
    replay = plan_of({P0: (0, 5), P1: (3, 3)}, topic_ids={}, has_log_bounds=True)
    assert judged(replay, heads).verdict is BatchVerdict.REPLAY


def test_a_new_partition_does_not_make_a_replay_mixed() -> None:
    """An empty range without a head says nothing of whether the batch was applied."""
    found = judged(plan_of({P0: (0, 5), P1: (3, 3)}), {P0: head_of(0, 5)})
    assert found.verdict is BatchVerdict.REPLAY
    assert not found.entry.moves


def test_a_new_partition_that_is_alone_gets_its_head_after_the_others() -> None:
    """Of a batch that was broken off before it did, the head is all that is missing."""
    plan, heads = plan_of({P0: (0, 5), P1: (3, 3)}, batch_id=0), {P0: head_of(0, 5)}
    found = judged(plan, heads, per_partition=True)
    assert list(found.entry.moves) == [P1]
    assert found.verdict is BatchVerdict.NEXT
    assert found.replayed == {P0: (0, 5)}
    after = heads | {P1: found.entry.head(P1)}
    assert judged(plan, after, per_partition=True).verdict is BatchVerdict.REPLAY


@pytest.mark.parametrize(
    ("heads", "batch_id", "verdict", "moved"),
    [
        ({}, 0, BatchVerdict.FIRST, [P0, P1]),
        ({P0: head_of(0, 5), P1: head_of(0, 3, batch_id=2)}, 7, BatchVerdict.NEXT, [P0, P1]),
        (
            {P0: head_of(5, 5, batch_id=7), P1: head_of(3, 3, batch_id=7)},
            7,
            BatchVerdict.REPLAY,
            [],
        ),
        ({P0: head_of(5, 5, batch_id=7)}, 7, BatchVerdict.REPLAY, []),
        ({P0: head_of(0, 5, query_id="old", batch_id=90)}, 0, BatchVerdict.NEXT, [P0, P1]),
        ({P0: head_of(0, 4), P1: head_of(0, 3)}, 7, BatchVerdict.NEXT, [P1]),
    ],
)
def test_a_batch_without_offsets_is_recognised_by_its_number(
    heads: dict[TopicPartition, Head],
    batch_id: int,
    verdict: BatchVerdict,
    moved: list[TopicPartition],
) -> None:
    """Its rows come from Spark's state: heads are marked with the number, which tells a replay."""
    found = judged(plan_of({P0: (5, 5), P1: (3, 3)}, batch_id=batch_id), heads)
    assert found.verdict is verdict
    assert list(found.entry.moves) == moved
    for tp in moved:
        assert found.entry.moves[tp].verdict is None
        assert found.entry.head(tp).batch_id == batch_id


def test_half_of_a_batch_without_offsets_is_finished() -> None:
    """Alone, a partition that is marked says nothing of the others; together they are mixed."""
    heads = {P0: head_of(0, 5, batch_id=7), P1: head_of(0, 3)}
    plan = plan_of({P0: (5, 5), P1: (3, 3)}, batch_id=7, stateful=True)
    found = judged(plan, heads, per_partition=True)
    assert (found.verdict, list(found.entry.moves)) == (BatchVerdict.NEXT, [P1])
    assert refused(PartialReplayError, plan, heads).ranges == {P0: (5, 5)}


def test_a_batch_without_offsets_of_a_lower_number_is_refused() -> None:
    """A restored checkpoint would repeat rows of Spark's state."""
    with pytest.raises(RegressionError, match="the sink has batch 8"):
        judged(plan_of({P0: (5, 5)}, batch_id=7), {P0: head_of(0, 5, batch_id=8)})


@pytest.mark.parametrize(
    ("planned", "error", "gap"),
    [((7, 7), GapError, (5, 7)), ((3, 3), RegressionError, (3, 5))],
)
def test_rows_that_nothing_would_mark_are_not_written(
    planned: tuple[int, int], error: type[GuardError], gap: tuple[int, int]
) -> None:
    """A batch without offsets of which no head stands where it stands is judged by its place."""
    heads = {P0: head_of(0, 5)}
    assert refused(error, plan_of({P0: planned}), heads).ranges == {P0: gap}
    if error is GapError:
        found = judged(plan_of({P0: planned}), heads, on_gap="accept")
        assert found.entry.moves[P0].gap == gap


def test_some_applied_and_some_not_is_an_error_of_its_own() -> None:
    """In one transaction no batch is half applied; alone each partition may be."""
    heads = {P0: head_of(0, 5), P1: head_of(0, 3)}
    plan = plan_of({P0: (0, 5), P1: (3, 6), P2: (0, 1)})
    assert refused(PartialReplayError, plan, heads).ranges == {P0: (0, 5)}
    found = judged(plan, heads, per_partition=True)
    assert found.verdict is BatchVerdict.NEXT
    assert list(found.entry.moves) == [P1, P2]
    assert found.replayed == {P0: (0, 5)}


def test_a_recreated_topic_is_refused_even_where_it_has_nothing_new() -> None:
    """Offsets of another topic id are others, also of an empty range and of a replay."""
    for planned in ((5, 9), (5, 5), (0, 5)):
        plan = plan_of({P0: planned}, topic_ids={"t": "T2"})
        assert refused(TopicRecreatedError, plan, {P0: head_of(0, 5)}, on_gap="accept").ranges == {
            P0: planned
        }


def test_a_recreated_topic_may_be_taken_from_its_beginning() -> None:
    """By consent it counts as never applied, over its old head, and other topics go on."""
    heads = {P0: head_of(0, 5), P1: head_of(0, 2), P2: head_of(0, 4), U0: head_of(0, 8)}
    heads[U0] = replace(heads[U0], topic_id="U")
    plan = plan_of({P0: (0, 9), P1: (0, 0), U0: (8, 9)}, topic_ids={"t": "T2", "u": "U"})
    found = judged(plan, heads, on_recreated="restart")  # P2 is not in the new topic
    moves = found.entry.moves
    assert {tp: (move.verdict, move.topic_id, move.gap) for tp, move in moves.items()} == {
        P0: (BatchVerdict.FIRST, "T2", None),
        P1: (None, "T2", None),
        U0: (BatchVerdict.NEXT, "U", None),
    }
    assert {tp: move.expected for tp, move in moves.items()} == {tp: heads[tp] for tp in moves}
    later = heads | {tp: found.entry.head(tp) for tp in moves}
    assert judged(plan, later).verdict is BatchVerdict.REPLAY  # the consent is needed no more
    follows = plan_of({P0: (9, 10), P1: (0, 1)}, topic_ids=plan.topic_ids)
    assert judged(follows, later).verdict is BatchVerdict.NEXT


def test_a_replay_beside_a_recreated_topic_is_mixed_without_offsets_too() -> None:
    """The new topic's head is not left out in silence; alone each partition may be."""
    heads = {P0: head_of(0, 5), U0: head_of(0, 8, topic_id="U", batch_id=7)}
    plan = plan_of({P0: (0, 0), U0: (8, 8)}, topic_ids={"t": "T2", "u": "U"})
    assert refused(PartialReplayError, plan, heads, on_recreated="restart").ranges == {U0: (8, 8)}
    found = judged(plan, heads, on_recreated="restart", per_partition=True)
    assert found.entry.moves[P0].topic_id == "T2"


def test_a_recreated_topic_is_not_taken_from_its_middle() -> None:
    """A checkpoint that went on over the new topic has not read its beginning: that is a gap."""
    heads = {P0: head_of(0, 5)}
    plan = plan_of({P0: (5, 9)}, topic_ids={"t": "T2"})
    assert refused(GapError, plan, heads, on_recreated="restart").ranges == {P0: (0, 5)}
    plan = replace(plan, log_starts={P0: 5})
    assert judged(plan, heads, on_recreated="restart").verdict is BatchVerdict.FIRST
    with pytest.raises(GapError):
        judged(replace(plan, log_starts={P0: 6}), heads, on_recreated="restart")


def test_nothing_is_lost_of_a_recreated_topic_that_is_not_there_yet() -> None:
    """An old checkpoint stands beyond the new log, with no records to read: that is no gap."""
    heads = {P0: head_of(0, 5), P1: head_of(0, 3)}
    plan = plan_of({P0: (5, 9), P1: (3, 3)}, topic_ids={"t": "T2"}, has_log_bounds=True)
    plan = replace(plan, log_starts={P0: 0, P1: 0}, log_ends={P0: 9, P1: 2})
    assert refused(
        RegressionError, plan, heads, on_recreated="restart", on_gap="accept"
    ).ranges == {P1: (2, 3)}
    plan = replace(plan, log_ends={P0: 9, P1: 3})
    found = judged(plan, heads, on_recreated="restart", on_gap="accept")
    assert found.gaps == {P0: (0, 5), P1: (0, 3)}


def test_an_unknown_topic_id_is_no_other_id() -> None:
    """Where one of the two is unknown nothing is said, and what is known is not forgotten."""
    found = judged(plan_of({P0: (5, 9)}, topic_ids={}), {P0: head_of(0, 5)})
    assert found.entry.moves[P0].topic_id == "T"
    found = judged(plan_of({P0: (5, 9)}), {P0: head_of(0, 5, topic_id=None)})
    assert found.entry.moves[P0].topic_id == "T"


def test_a_partition_that_is_no_longer_read_is_refused() -> None:
    """A topic that is read must be read whole; one that no source reads is not checked."""
    heads = {P0: head_of(0, 5), P1: head_of(0, 3), U0: head_of(0, 8, topic_id="U")}
    assert refused(PartitionVanishedError, plan_of({P0: (5, 9)}), heads).ranges == {P1: (3, 3)}
    assert judged(plan_of({P0: (5, 9), P1: (3, 3)}), heads).verdict is BatchVerdict.NEXT


def test_partitions_of_a_recreated_topic_are_let_go_with_it() -> None:
    """Where it was taken from its start, now or in a batch before; else their loss is told."""
    heads = {P0: head_of(0, 5, topic_id="older")}
    plan = plan_of({P1: (0, 3)}, log_ends={P1: 3}, has_log_bounds=True)
    assert refused(PartitionVanishedError, plan, heads, on_first="accept").ranges == {P0: (5, 5)}
    again = judged(plan, heads, on_first="accept", on_recreated="restart")
    assert again.entry.moves.keys() == {P1}
    taken = heads | {P1: head_of(0, 2)}
    assert judged(plan_of({P1: (2, 3)}), taken).entry.moves.keys() == {P1}


GRAVITY: list[tuple[type[GuardError], Ranges]] = [
    (TopicRecreatedError, {U0: (8, 9)}),
    (PartitionVanishedError, {}),  # P2 is missing
    (RegressionError, {TopicPartition("t", 3): (0, 4), TopicPartition("t", 4): (9, 8)}),
    (OverlapError, {TopicPartition("t", 5): (4, 9)}),
    (NotInLedgerError, {TopicPartition("t", 8): (4, 9)}),
    (GapError, {TopicPartition("t", 6): (6, 9)}),
    (PartialReplayError, {TopicPartition("t", 7): (0, 5)}),
]


@pytest.mark.parametrize("least", range(len(GRAVITY)))
def test_the_gravest_of_a_batch_is_raised_with_all_its_partitions(least: int) -> None:
    """Of several kinds the gravest counts, and names each partition that has it."""
    error, named = GRAVITY[least]
    ranges = {P0: (5, 9)} | {tp: span for _, more in GRAVITY[least:] for tp, span in more.items()}
    heads = {tp: head_of(0, 5) for tp in ranges if tp.topic == "t"}
    heads.pop(TopicPartition("t", 8), None)
    heads |= {U0: head_of(0, 8, topic_id="older"), TopicPartition("t", 4): head_of(0, 9)}
    if least > 1:
        ranges[P2] = (5, 9)
    heads[P2] = head_of(0, 5)
    if least:
        del heads[U0]
    if TopicPartition("t", 4) not in ranges:
        del heads[TopicPartition("t", 4)]
    plan = plan_of(ranges, continued=frozenset(ranges))
    raised = refused(GuardError, plan, heads, other_heads=OtherHeads(sink="delays", heads={}))
    assert type(raised) is error
    assert set(raised.ranges) == (set(named) or {P2})


def test_an_error_of_many_partitions_stays_short() -> None:
    """The first few are named, the others counted, all of them kept."""
    ranges = {TopicPartition("t", number): (7, 9) for number in range(1000)}
    raised = refused(GapError, plan_of(ranges), {tp: head_of(0, 5) for tp in ranges})
    assert len(str(raised)) < 800
    assert "t-4 5..7 and 995 more" in str(raised)
    assert len(raised.ranges) == 1000
    few = dict(list(ranges.items())[:5])
    assert "t-4 5..7. " in str(refused(GapError, plan_of(few), {tp: head_of(0, 5) for tp in few}))


def test_a_gap_of_a_ledger_that_no_command_knows() -> None:
    """That of a user's own store: no command is named; one of ours can be accepted by it."""
    for ledger in (None, SinkLedger("delays", None)):
        raised = refused(GapError, plan_of({P0: (7, 9)}), {P0: head_of(0, 5)}, ledger=ledger)
        assert "eo-listener" not in str(raised)
        assert 'on_gap="accept"' in str(raised)
    accept = "eo-listener ledger accept sqlite:/x.db --sink delays --query flights"
    assert f"{accept} --partition t-0 --gap 5..7 --execute; " in str(
        refused(GapError, plan_of({P0: (7, 9)}), {P0: head_of(0, 5)}, ledger=IN_FILE).fix
    )


@pytest.mark.parametrize(
    ("address", "looks"),
    [
        ("kafka://k:9092/eo-ledger", True),
        ("kafka:eo-ledger", True),
        ("sqlite:/x.db", False),
        ("postgresql://h/d", False),
        ("iceberg:lake.db.t", False),
        ("delta:/d", False),
    ],
)
def test_rows_apart_from_their_ledger_are_looked_at_first(address: str, looks: bool) -> None:
    """Where the ledger's topic alone was put back, a start from there writes them once more.

    In a database, and in a table, both are one copy: there the start comes first.
    """
    ledger = SinkLedger("out", LedgerPlace(address=address))
    for kind in (
        BatchErrorKind.GAP,
        BatchErrorKind.UNKNOWN,
        BatchErrorKind.BATCH_GAP,
        BatchErrorKind.UNCOUNTED,
    ):
        errors = BatchErrors()
        errors.add(kind, P0, OffsetRange(3, 5))
        with pytest.raises(kind.value.error) as raised:
            errors.raise_gravest(plan_of({}), name="flights", sink="s", ledger=ledger)
        fix = str(raised.value.fix)
        assert fix.startswith("Check if the target") is looks, kind
        if looks and "starting_offsets" in fix:
            assert fix.index('="accept"') < fix.index("starting_offsets")


def test_a_topic_of_another_name_is_carried_over_by_a_command() -> None:
    """A KafkaSink has no table that could be renamed: its topics or its name= were changed."""
    there = {LedgerKey("a", "flights"): {P0: head_of(7, 9)}}
    raised = refused(
        NotInLedgerError,
        plan_of({P0: (7, 9)}),
        {},
        other_heads=OtherHeads(sink="out", heads=there),
        ledger=IN_TOPIC,
    )
    carried = "eo-listener ledger rename kafka://k:9092/l --sink a --query flights --to-sink out"
    assert f"carry its ledger over: {carried} --execute, and keep" in str(raised.fix)
    assert "ALTER TABLE" not in str(raised)


@pytest.mark.parametrize("kind", BatchErrorKind, ids=lambda kind: kind.name)
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("ledger", [None, IN_FILE, IN_TOPIC], ids=["own", "file", "topic"])
def test_what_to_type_can_be_typed(
    kind: BatchErrorKind, stateful: bool, ledger: SinkLedger | None
) -> None:
    """Each call in a fix is one that Python takes, with arguments that the function has."""
    errors = BatchErrors()
    errors.add(kind, P0, OffsetRange(0, 5))
    with pytest.raises(GuardError) as raised:
        errors.raise_gravest(
            plan_of({}, stateful=stateful), name='a "b" {c}', sink="s", ledger=ledger
        )
    fix = raised.value.fix or ""
    for function in (starting_offsets, exactly_once):
        for call in re.findall(rf"{function.__name__}\([^()]*\)", fix):
            typed = ast.parse(call, mode="eval").body
            assert isinstance(typed, ast.Call)
            given = {one.arg: one.value for one in typed.keywords}
            inspect.signature(function).bind(*typed.args, **given)  # type: ignore[arg-type]  # None only for **
            if function is starting_offsets:
                assert {"ledger", "query", "bootstrap_servers"} <= given.keys()
                assert ast.literal_eval(given["query"]) == 'a "b" {c}'
    assert ledger is not None or "eo-listener" not in fix
    assert fix.removeprefix("(1) ")[0].isupper()
    assert ("the query has state" in fix) is (stateful and "checkpointLocation" in fix)


def test_what_cannot_be_proved_is_refused() -> None:
    """Batches without a source and doubled partitions are named."""
    with pytest.raises(SettingsError, match="has no source"):
        judged(plan_of({}, sources={}), {})
    twice = {0: {P0: OffsetRange(0, 5)}, 1: {P0: OffsetRange(0, 5)}}
    assert "two clusters" in str(refused(SettingsError, plan_of({}, sources=twice), {}))


def test_each_move_knows_its_source() -> None:
    """With several sources a partition's move names the one that reads it."""
    sources = {0: {P0: OffsetRange(0, 5)}, 2: {U0: OffsetRange(0, 1), P1: OffsetRange(0, 2)}}
    moves = judged(plan_of({}, sources=sources), {}).entry.moves
    assert {tp: move.source for tp, move in moves.items()} == {P0: 0, P1: 2, U0: 2}
    only = judged(plan_of({}, sources={3: {P0: OffsetRange(0, 5)}}), {}).entry.moves
    assert only[P0].source == 3


def test_a_batch_of_no_partitions_moves_nothing() -> None:
    """A pattern that matches no topic yet leads to a batch with nothing to write."""
    found = judged(plan_of({}, sources={0: {}}), {})
    assert not found.entry.moves
    assert found.verdict is BatchVerdict.FIRST


def test_a_stateful_batch_of_no_partitions_is_refused() -> None:
    """Its state may still give rows, and nothing would say that they were written."""
    plan = plan_of({}, sources={0: {}}, stateful=True)
    with pytest.raises(SettingsError, match="no partition"):
        judged(plan, {})
    assert refused(PartitionVanishedError, plan, {P0: head_of(0, 5)}).ranges == {P0: (5, 5)}


SPANS = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: (min(pair), max(pair)))
HEADS = st.dictionaries(st.sampled_from([P0, P1]), SPANS.map(lambda span: head_of(*span)))
PLANS = st.dictionaries(st.sampled_from([P0, P1]), SPANS, min_size=1)


@given(
    heads=HEADS,
    planned=PLANS,
    accept=st.booleans(),
    alone=st.booleans(),
    log_start=st.integers(0, 6),
)
def test_what_is_let_through_is_new_and_follows(
    heads: dict[TopicPartition, Head],
    planned: dict[TopicPartition, tuple[int, int]],
    accept: bool,
    alone: bool,
    log_start: int,
) -> None:
    """No offset that is applied is let through again, and none is skipped without a gap."""
    plan = plan_of(planned, log_starts=dict.fromkeys(planned, log_start))
    on_gap = "accept" if accept else "fail"
    try:
        found = judged(plan, heads, on_gap=on_gap, per_partition=alone)
    except GapError:
        accepted = accept
    except GuardError:
        return
    else:
        follows(found, plan, heads)
        assert alone or not (found.replayed and found.entry.moves)
        assert accept or not found.gaps
        return
    assert not accepted


def follows(found: Judgement, plan: PlannedBatch, heads: dict[TopicPartition, Head]) -> None:
    """Every move begins where its head ended, and each offset is either read or in a gap."""
    for tp, move in found.entry.moves.items():
        start = move.range.start if tp not in heads else heads[tp].range.until
        lost = range(*move.gap) if move.gap is not None else range(0)
        read = [offset for offset in range(*move.range) if offset not in lost]
        assert [*lost, *read] == list(range(start, move.range.until))
        if move.verdict is not None and move.gap is None:
            assert plan.log_starts[tp] <= move.range.start
    for tp, span in found.replayed.items():
        assert span == heads[tp].range or span.start == span.until


@given(heads=HEADS, planned=PLANS)
def test_what_was_applied_is_a_replay(
    heads: dict[TopicPartition, Head], planned: dict[TopicPartition, tuple[int, int]]
) -> None:
    """The same plan is let through once: with the heads it leads to it is a replay."""
    plan = plan_of(planned)
    try:
        entry = judged(plan, heads, on_gap="accept").entry
    except GuardError:
        return
    if not entry.moves:
        return
    again = judged(plan, heads | {tp: entry.head(tp) for tp in entry.moves})
    assert not again.entry.moves
    assert again.verdict is BatchVerdict.REPLAY or not any(
        span.start != span.until for span in plan.ranges().values()
    )
