"""What is healthy is not accused, what is wrong is not hidden, and no advice makes it worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.audit.position_finding import Harm, PositionFindingKind, outcome
from eo_listener.audit.position_judge import judge_rows
from eo_listener.audit.positions import CheckpointPositions, GroupPositions
from eo_listener.audit.result import AuditFinding, AuditFindingKind
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.offsets import OffsetRange, Position, TopicPartition
from tests.audit.test_position_judge import (
    ADVICE,
    KEY,
    OTHER,
    TP,
    checkpoint,
    group,
    head,
    held,
    judged,
    ledger,
    log,
    only,
    source,
    store,
)

Kind = PositionFindingKind
EMPTY = GroupPositions(name="g", before={}, after={})
FIRST = checkpoint(committed=None, planned=0, ahead=[10])


FOREIGN = store(ledger(head(60, query="other")))
EARLIER = GroupPositions(name="g", before=held(60), after=held(60, query="deadbeef-0"))
BY_BOTH = GroupPositions(name="g", before=held(70, by_sink=True), after=held(70))
SLOW = ledger(20, key=LedgerKey("delays", "slow"))
LEFT = ledger(40, key=LedgerKey("old", "flights"))


@pytest.mark.parametrize(
    "given",
    [
        # The sink commits with its batch, and later the listener the same.
        {"checkpoint": checkpoint(60, ahead=[70]), "groups": (BY_BOTH,)},
        # Heads are never deleted, and may be of a topic that was deleted on purpose.
        {"source": source(log()), "checkpoint": checkpoint(60), "stores": (store(ledger(60, 50)),)},
        # Without a checkpoint it is not known of which query the group is.
        {"groups": (group(60),), "stores": (store(ledger(60), SLOW),)},
        # A query that began from a ledger: an empty batch moves no head.
        {"checkpoint": checkpoint(60, began={TP: 60}), "stores": (FOREIGN,)},
    ],
)
def test_what_is_healthy_is_not_accused(given: dict[str, object]) -> None:
    """Nothing is to be acted on where all may be as it should be."""
    assert not judged(**given).to_act_on


@pytest.mark.parametrize(
    ("given", "kind", "part"),
    [
        # The sink has what the group says: it is the checkpoint that is an older copy.
        ({"checkpoint": checkpoint(10), "groups": (group(60),), "stores": (store(ledger(60)),)},
         Kind.LEDGER_AHEAD, ""),
        # A new checkpoint begins at the latest records, unless it is told where.
        ({"checkpoint": checkpoint(60), "stores": (store(others=(KEY,)),)},
         Kind.LEDGER_EMPTY, '"startingOffsets", "earliest"'),
        ({"source": source(log(end=10)), "checkpoint": checkpoint(60)},
         Kind.BEYOND_END, "cut back"),
        # The ledger of a sink that is no longer written to stays; the other one is named.
        ({"checkpoint": checkpoint(60), "stores": (store(ledger(60), LEFT),)},
         Kind.LEDGER_BEHIND, "--sink"),
        # It may be that nothing has come since a new checkpoint: then nobody else commits.
        ({"checkpoint": checkpoint(60), "groups": (EARLIER,)},
         Kind.GROUP_FOREIGN, "new checkpoint"),
    ],
)  # fmt: skip  # one case a line
def test_the_advice_fits_each_cause(given: dict[str, object], kind: Kind, part: str) -> None:
    """Where two causes are possible, neither is concluded, and no advice harms in either."""
    found = only(judged(**given))
    assert found.kind is kind
    assert part in found.cause + found.fix


def test_a_first_batch_has_nothing_in_its_group_and_ledger() -> None:
    """Nothing is committed or applied yet."""
    found = judged(checkpoint=FIRST, groups=(EMPTY,), stores=(store(),))
    assert not found.to_act_on
    assert {Kind.GROUP_EMPTY, Kind.LEDGER_EMPTY} < {one.kind for one in found.findings}


def test_a_damaged_checkpoint_is_no_first_batch() -> None:
    """What was committed is then not known."""
    damaged = checkpoint(committed=None, planned=None, damaged=("offsets/4 is cut off",))
    found = judged(checkpoint=damaged, groups=(EMPTY,), stores=(store(),))
    assert {Kind.GROUP_EMPTY, Kind.LEDGER_EMPTY} < {one.kind for one in found.to_act_on}


@pytest.mark.parametrize(("begun", "accused"), [(4, True), (5, False)])
def test_a_batch_begun_that_is_planned_is_at_work(begun: int, accused: bool) -> None:
    """Of a sink without transactions; one that is committed should be finished."""
    found = judged(checkpoint=checkpoint(60, ahead=[70]), stores=(store(ledger(60, begun=begun)),))
    assert [one.kind for one in found.to_act_on] == [Kind.BATCH_BEGUN] * accused


def test_what_was_applied_is_not_lost() -> None:
    """A sink has the batch in doubt, and Kafka has deleted its records since."""
    given = {"source": source(log(start=65)), "checkpoint": checkpoint(60, ahead=[70])}
    assert not judged(**given, stores=(store(ledger(70)),)).to_act_on
    second = ledger(60, key=LedgerKey("b", "flights"))
    assert judged(**given, stores=(store(ledger(70), second),)).count(Harm.LOST) == 5


def test_a_group_that_a_tool_moved_beyond_the_log_hides_nothing() -> None:
    """The ledger is judged all the same, and the group alone is to be moved."""
    found = judged(
        source=source(log(end=100)),
        checkpoint=checkpoint(60),
        groups=(group(999),),
        stores=(store(ledger(40)),),
    )
    assert {one.kind for one in found.to_act_on} == {Kind.GROUP_AHEAD, Kind.LEDGER_BEHIND}
    assert found.count(Harm.LOST) == 20


def test_a_group_is_not_taken_back_to_a_damaged_checkpoint() -> None:
    """Its newest files cannot be used, so nothing is known to be ahead of it."""
    damaged = checkpoint(10, damaged=("offsets/4 is cut off",))
    found = judged(checkpoint=damaged, groups=(group(60),))
    assert only(found).kind is Kind.CHECKPOINT_DAMAGED
    assert not any("--on-rewind" in one.fix for one in found.findings)


def test_a_group_with_foreign_commits_goes_back_only_where_it_is_ahead() -> None:
    """A rewind that nothing asks for could hide what else is wrong."""
    found = only(judged(checkpoint=checkpoint(60), groups=(EARLIER,)))
    assert "--on-rewind" not in found.fix


def test_a_ledger_that_another_query_has_moved_to_the_same_place() -> None:
    """What this query has done is not in it, though the offsets agree."""
    found = judged(checkpoint=checkpoint(60, began={TP: 0}), stores=(FOREIGN,))
    assert only(found).kind is Kind.LEDGER_FOREIGN
    assert "nothing lost" not in found.verdict


@pytest.mark.parametrize(
    "given",
    [
        {"source": source(), "checkpoint": checkpoint(60)},
        {"source": source(log(end=10)), "checkpoint": checkpoint(60)},
        {"source": source(log(topic_id="B")), "stores": (store(ledger(60)),)},
    ],
)
def test_where_offsets_mean_nothing_nobody_says_nothing_is_lost(
    given: Mapping[str, object],
) -> None:
    """A topic that is gone, cut back or recreated."""
    found = judged(**given)
    assert found.to_act_on
    assert "nothing lost" not in found.verdict


def test_rows_that_cannot_be_proved_are_counted_in_the_verdict() -> None:
    """The table does not have them, and Kafka no longer has them either."""
    gone = AuditFinding(kind=AuditFindingKind.RETENTION, partition=TP, range=OffsetRange(0, 7))
    found = outcome(judge_rows(ledger(60), "delays", [gone], ADVICE, 9))
    assert "nothing lost" not in found.verdict
    assert "7 offsets that cannot be proved" in found.verdict
    assert found.document()["unproved"] == 7
    assert Kind.AGREED not in {one.kind for one in found.findings}


def test_rows_of_a_recreated_topic_are_not_to_be_deleted() -> None:
    """They have the offsets of the new topic's rows, and are other records."""
    twice = AuditFinding(kind=AuditFindingKind.DUPLICATE, partition=TP, range=OffsetRange(0, 7))
    found = only(outcome(judge_rows(ledger(60), "delays", [twice], ADVICE, 9)))
    assert "recreated" in found.cause
    assert found.fix.startswith("if the topic was never recreated, delete")


def test_a_new_partition_is_not_taken_for_a_held_one() -> None:
    """Only what nothing holds is new."""
    found = judged(source=source(log(), log()), groups=(group(60, 50),), checkpoint=checkpoint(60))
    new = [one.what for one in found.findings if one.kind is Kind.NEW_PARTITIONS]
    assert not any(str(OTHER) in what for what in new)


def test_a_partition_only_the_group_holds_is_looked_at() -> None:
    """Where nothing else has it, the group's own offset counts."""
    bare = {TopicPartition("x", 0): Position(offset=50, metadata="")}
    alone = GroupPositions(name="g", before=bare, after=bare)
    found = judged(source=source(log()), groups=(alone,))
    assert Kind.TOPIC_GONE in {one.kind for one in found.to_act_on}


def test_a_group_whose_topic_was_recreated_is_not_brought_to_the_old_offsets() -> None:
    """Kafka deletes the offsets with the topic, and those of the checkpoint are of the old one."""
    found = judged(
        source=source(log(topic_id="B", end=999)),
        checkpoint=checkpoint(60),
        groups=(EMPTY,),
        stores=(store(ledger(60)),),
    )
    assert only(found).kind is Kind.TOPIC_RECREATED
    assert not any("follow" in one.fix for one in found.findings)


def test_records_of_a_topic_are_not_written_twice_for_a_ledger_that_was_restored_alone() -> None:
    """They may be in the target: that is to be looked at before anything is read once more."""
    behind = only(judged(checkpoint=checkpoint(60), stores=(store(ledger(40, targets=("out",))),)))
    assert behind.kind is Kind.LEDGER_BEHIND
    assert behind.fix.startswith("see whether topic out has these records")
    first, _, second = behind.fix.partition("; or, where it has none, ")
    assert 'on_gap="accept"' in first
    assert "starting_offsets(ledger=sink" in second


def test_a_partition_that_a_restored_ledger_lacks_may_be_in_its_target() -> None:
    """As for what it is behind by: the target is looked at before anything is read once more."""
    found = judged(checkpoint=checkpoint(60, 50), stores=(store(ledger(60, targets=("out",))),))
    lacking = only(found)
    assert lacking.kind is Kind.LEDGER_LACKS
    first, _, second = lacking.fix.partition("; or, where it has none, ")
    assert first.startswith("see whether topic out has these records")
    assert 'on_first="accept"' in first
    assert "starting_offsets(ledger=sink" in second


def test_a_target_that_is_another_topic_now() -> None:
    """Nobody says that nothing is lost, though the ledger is where the checkpoint is."""
    replaced = ledger(60, targets=("out",), replaced=("out",))
    found = judged(checkpoint=checkpoint(60), stores=(store(replaced),))
    assert only(found).kind is Kind.TARGET_RECREATED
    assert 'KafkaSink(..., name="NEW")' in only(found).fix
    assert "nothing lost" not in found.verdict


@pytest.mark.parametrize(
    "given",
    [
        {"checkpoint": CheckpointPositions(label="c", exists=False)},
        {"checkpoint": checkpoint(60), "until": 70},
        {"source": source(log(topic_id="B")), "checkpoint": checkpoint(60)},
        {"source": source(log(start=65)), "checkpoint": checkpoint(60)},
    ],
    ids=["no checkpoint", "ahead", "recreated", "retention"],
)
def test_a_start_from_the_ledger_is_not_advised_where_its_rows_are_gone(
    given: dict[str, Any],
) -> None:
    """Not by any other finding either: what it has as applied would never come again."""
    until = given.pop("until", 60)
    replaced = ledger(until, targets=("out",), replaced=("out",))
    found = judged(stores=(store(replaced),), **given)
    assert len(found.to_act_on) == 2
    for one in found.to_act_on:
        before, _, after = one.fix.partition("where it is a copy that the ledger fits, ")
        assert "starting_offsets(" not in before
        assert "starting_offsets(" not in after or 'name="NEW"' in before


def test_a_ledger_of_the_same_query_id_under_another_name_is_named() -> None:
    """A copy of the checkpoint has its id; which of the two is meant is not guessed in silence."""
    both = store(ledger(60), renamed=(LedgerKey("delays", "copy"), LedgerKey("other", "x")))
    found = judged(checkpoint=checkpoint(60), stores=(both,))
    assert not found.to_act_on
    (note,) = (one for one in found.findings if one.kind is Kind.LEDGER_RENAMED)
    assert "under 'copy' too" in note.what
    named = judged(checkpoint=checkpoint(60), stores=(both,), query="flights")
    assert Kind.LEDGER_RENAMED not in {one.kind for one in named.findings}


WEATHER = TopicPartition("weather", 0)
BOTH = replace(checkpoint(60), done={TP: 60, WEATHER: 9})
OF_WEATHER = replace(
    group(9), name="h", before={WEATHER: held(9)[TP]}, after={WEATHER: held(9)[TP]}
)
ONE_TOPIC = "eo-listener follow /c -b k:9092 -g flights=g --once"


def test_a_group_that_expired_is_not_given_the_topics_of_another_one() -> None:
    """It would hold offsets of them that nobody moves on."""
    assert only(judged(checkpoint=BOTH, groups=(EMPTY, OF_WEATHER))).fix == ONE_TOPIC


@pytest.mark.parametrize("one", [EMPTY, group(40)])
def test_a_group_is_not_given_a_topic_that_is_committed_to_none(one: GroupPositions) -> None:
    """As the person has said by --uncommitted."""
    found = judged(checkpoint=BOTH, groups=(one,), uncommitted=frozenset({"weather"}))
    assert only(found).fix == ONE_TOPIC


def test_a_group_that_retention_has_passed_is_given_its_own_topics_alone() -> None:
    """And nothing of a checkpoint that cannot be read."""
    logs = replace(source(log(start=30)), logs={TP: log(start=30), WEATHER: log()})
    given = {"source": logs, "groups": (group(20), OF_WEATHER)}

    def fix(**more: object) -> str:
        found = judged(**given, **more)
        (below,) = (one for one in found.to_act_on if one.kind is Kind.RETENTION)
        return below.fix

    assert fix(checkpoint=BOTH) == ONE_TOPIC
    damaged = replace(BOTH, damaged=("offsets/4 is cut off",))
    assert fix(checkpoint=damaged) == "see to the checkpoint first; a group follows it"


def test_nothing_is_called_lost_by_a_checkpoint_whose_newest_batch_cannot_be_read() -> None:
    """The query may have read what Kafka has deleted since: the older batch does not say."""
    damaged = checkpoint(60, damaged=("offsets/4 is cut off",))
    found = judged(source=source(log(start=70)), checkpoint=damaged, groups=(group(90),))
    assert {one.kind for one in found.to_act_on} == {Kind.CHECKPOINT_DAMAGED, Kind.RETENTION}
    assert (found.count(Harm.LOST), found.count(Harm.UNPROVED)) == (0, 10)
    assert found.verdict.startswith("nothing found lost or doubled, 10 offsets that cannot be")


def test_a_batch_whose_file_is_damaged_is_no_second_driver() -> None:
    """The ledger has it; a batch that is newer, or another query's, is accused as ever."""
    damaged = checkpoint(60, planned=5, damaged=("offsets/5 is cut off",))
    applied = replace(head(90), batch_id=5)
    found = judged(checkpoint=damaged, stores=(store(ledger(applied)),))
    assert only(found).kind is Kind.CHECKPOINT_DAMAGED
    (doubt,) = (one for one in found.findings if one.kind is Kind.BATCH_IN_DOUBT)
    assert doubt.what == "batch 5 is planned and not committed"
    for other in (replace(applied, batch_id=6), replace(applied, query_id="other")):
        found = judged(checkpoint=damaged, stores=(store(ledger(other)),))
        assert Kind.LEDGER_AHEAD in {one.kind for one in found.to_act_on}


def test_a_query_does_not_begin_where_another_one_stands() -> None:
    """What is before that would never be in its sink: whose ledger it is must be looked at."""
    for at in (40, 90):
        other = {"checkpoint": checkpoint(60), "stores": (store(ledger(head(at, query="other"))),)}
        assert (
            only(judged(**other))
            .fix.partition("where it is, ")[0]
            .endswith('see whether "flights" is the name of this query; ')
        )
        assert "see whether" not in only(judged(**other, query="flights")).fix
    mixed = store(ledger(head(40, query="other"), 40))
    assert only(judged(checkpoint=checkpoint(60, 60), stores=(mixed,))).fix.startswith("stop the")
    gone = CheckpointPositions(label="/c", exists=False)
    both = store(ledger(60, key=LedgerKey("a", "airports")), ledger(60))
    assert only(judged(checkpoint=gone, stores=(both,))).fix.startswith("name the query, --query")


def test_a_gap_that_was_accepted_within_the_planned_batch_is_no_second_driver() -> None:
    """The batch is refused all the same."""
    given = {"checkpoint": checkpoint(60, ahead=[90])}
    accepted = ledger(70, gaps={TP: (OffsetRange(60, 70),)})
    found = only(judged(**given, stores=(store(accepted),)))
    assert found.kind is Kind.LEDGER_MISFIT
    assert found.cause.startswith("a gap was accepted")
    assert "has moved it" in only(judged(**given, stores=(store(ledger(70)),))).cause


def test_a_query_without_a_batch_is_not_said_to_have_lost_nothing() -> None:
    """It may be the second start of one whose ledger is there, and could not be told."""
    found = judged(checkpoint=FIRST, stores=(store(others=(KEY,)),))
    assert not found.to_act_on
    assert found.verdict == "nothing found lost or doubled, nothing to act on"
    assert any("it has query 'flights'" in one.what for one in found.findings)


def test_of_two_sinks_the_one_that_was_restored_gets_a_query_of_its_own() -> None:
    """A start from its ledger goes back to what the other one has, which refuses that."""
    first, second = ledger(60), replace(ledger(40), store="SQLite file /y.db")
    found = only(judged(checkpoint=checkpoint(60), stores=(store(first), store(second))))
    assert found.about == "sink delays, query flights, in SQLite file /y.db"
    assert found.fix.startswith("give this sink a query of its own")
    assert "fits it and sink delays, query flights, in SQLite file /x.db: start" in found.fix
    assert 'with a new checkpointLocation and .option("startingOffsets"' in found.fix
    both = (store(ledger(40)), store(second))
    for one in judged(checkpoint=checkpoint(60), stores=both).to_act_on:
        assert one.fix.startswith("stop the query; start it")
