"""Positions side by side: each disaster has its finding, its records counted, and what to type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from eo_listener.audit.advice import Advice
from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.position_finding import (
    SHOWN,
    AuditOutcome,
    Harm,
    PositionFinding,
    PositionFindingKind,
    Severity,
    outcome,
)
from eo_listener.audit.position_judge import judge_positions, judge_rows, not_read
from eo_listener.audit.positions import (
    CheckpointPositions,
    GroupPositions,
    LedgerPositions,
    Positions,
    SourcePositions,
    StorePositions,
)
from eo_listener.audit.result import AuditFinding, AuditFindingKind
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.errors import KafkaError, SinkError
from eo_listener.model.ledger import Head, LedgerKey, TakenBack
from eo_listener.model.offsets import OffsetRange, Position, TopicPartition
from eo_listener.model.typed_command import ClusterCommands
from tests.documents.test_commands import require_typable

Kind = PositionFindingKind

TP, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)
QUERY_ID = "0f8c2a11-0000-4000-8000-000000000000"
KEY = LedgerKey("delays", "flights")
ADVICE = Advice(cluster=ClusterCommands(servers="k:9092"), checkpoint="/c")


def log(start: int = 0, end: int = 100, stable: int | None = None, topic_id: str = "A") -> LogFacts:
    return LogFacts(
        start=start, stable=end if stable is None else stable, end=end, topic_id=topic_id
    )


def head(until: int, *, start: int = 0, topic_id: str | None = "A", query: str = QUERY_ID) -> Head:
    return Head(
        range=OffsetRange(start, until), topic_id=topic_id, query_id=query, run_id="r1", batch_id=4
    )


def ledger(*heads: int | Head, key: LedgerKey = KEY, **more: object) -> LedgerPositions:
    found = {
        TopicPartition("flights", number): one if isinstance(one, Head) else head(one)
        for number, one in enumerate(heads)
    }
    return LedgerPositions(store="SQLite file /x.db", key=key, heads=found, **more)  # type: ignore[arg-type]  # its own fields


def store(*ledgers: LedgerPositions, **more: object) -> StorePositions:
    return StorePositions(store="SQLite file /x.db", ledgers=ledgers, **more)  # type: ignore[arg-type]  # its own fields


def held(
    *offsets: int, query: str = QUERY_ID, by_sink: bool = False, withheld: bool = False
) -> Mapping[TopicPartition, Position]:
    written = CommitMetadata.of(name="flights", query_id=query, run_id="11111111", batch_id=4)
    text = replace(written, by_sink=by_sink, withheld=withheld).text()
    return {
        TopicPartition("flights", number): Position(offset=offset, metadata=text)
        for number, offset in enumerate(offsets)
    }


def group(
    *offsets: int, after: Mapping[TopicPartition, Position] | None = None, **more: object
) -> GroupPositions:
    first = held(*offsets)
    return GroupPositions(name="g", before=first, after=first if after is None else after, **more)  # type: ignore[arg-type]  # its own fields


def checkpoint(
    *done: int, ahead: Iterable[int] | None = None, **more: object
) -> CheckpointPositions:
    def named(offsets: Iterable[int]) -> dict[TopicPartition, int]:
        return {TopicPartition("flights", number): one for number, one in enumerate(offsets)}

    given: dict[str, object] = {
        "label": "/c",
        "query_id": QUERY_ID,
        "committed": 4,
        "planned": 4 if ahead is None else 5,
        "done": named(done),
        "ahead": named(done if ahead is None else ahead),
        **more,
    }
    return CheckpointPositions(**given)  # type: ignore[arg-type]  # its own fields


def source(*logs: LogFacts, **more: object) -> SourcePositions:
    found = {TopicPartition("flights", number): one for number, one in enumerate(logs)}
    return SourcePositions(servers="k:9092", logs=found, **more)  # type: ignore[arg-type]  # its own fields


def judged(**positions: object) -> AuditOutcome:
    return outcome(judge_positions(Positions(**positions), ADVICE))  # type: ignore[arg-type]  # its own fields


def only(found: AuditOutcome) -> PositionFinding:
    """The one finding that matters."""
    assert [one.kind for one in found.to_act_on][1:] == [], found.to_act_on
    return found.to_act_on[0]


def test_all_four_agree() -> None:
    """Nothing to act on, one line for each, and the verdict says so."""
    found = judged(
        source=source(log(), log()),
        checkpoint=checkpoint(60, 50),
        groups=(group(60, 50),),
        stores=(store(ledger(60, 50)),),
    )
    assert [one.kind for one in found.findings] == [Kind.AGREED] * 4
    assert found.verdict == "nothing lost, nothing doubled, nothing to act on"


def test_nothing_at_all() -> None:
    """There is nothing to say of nothing."""
    assert judged().findings == ()


@pytest.mark.parametrize("left", ["source", "checkpoint", "groups", "stores"])
def test_any_of_the_four_may_be_missing(left: str) -> None:
    """What was not asked for is not judged, and the others are."""
    given: dict[str, object] = {
        "source": source(log(), log()),
        "checkpoint": checkpoint(60, 50),
        "groups": (group(60, 50),),
        "stores": (store(ledger(60, 50)),),
    }
    del given[left]
    found = judged(**given)
    assert {one.kind for one in found.findings} == {Kind.AGREED}
    assert len(found.findings) == 3


# --- the source's logs


def test_a_topic_that_is_gone() -> None:
    """Deleted, hidden from the client, or another cluster; nothing else is concluded from it."""
    found = only(judged(source=source(), checkpoint=checkpoint(60), stores=(store(ledger(50)),)))
    assert found.kind is Kind.TOPIC_GONE
    assert found.fix.endswith("eo-listener preflight -b k:9092 -t flights")


def test_a_partition_that_is_gone() -> None:
    """Topics never shrink, so it was recreated."""
    found = only(judged(source=source(log()), checkpoint=checkpoint(60, 50)))
    assert found.kind is Kind.TOPIC_GONE
    assert "no partition flights-1" in found.what


def test_a_topic_recreated_by_its_id() -> None:
    """The ledger knows the id; offsets of the two topics are not compared."""
    found = only(
        judged(
            source=source(log(end=100, topic_id="B")),
            checkpoint=checkpoint(60),
            groups=(group(70),),
            stores=(store(ledger(50)),),
        )
    )
    assert found.kind is Kind.TOPIC_RECREATED
    assert "was A, and is B" in found.what
    assert 'recreated="earliest"' in found.fix
    assert 'on_recreated="restart"' in found.fix


@pytest.mark.parametrize(
    ("known", "cause"), [("A", "unclean election): the topic's id is the same"), (None, "deleted")]
)
def test_beyond_the_end_of_the_log(known: str | None, cause: str) -> None:
    """With the topic's id it is known to be cut back; without, it may be recreated."""
    found = only(
        judged(
            source=source(log(end=10)),
            checkpoint=checkpoint(60),
            stores=(store(ledger(head(60, topic_id=known))),),
        )
    )
    assert found.kind is Kind.BEYOND_END
    assert found.ranges == {TP: (OffsetRange(10, 60),)}
    assert cause in found.cause
    assert 'exactly_once(..., name="NEW")' in found.fix
    assert 'out_of_range="latest"' in found.fix
    assert ("earliest" in found.fix) is (known is None)


def test_records_deleted_before_they_were_read() -> None:
    """By the checkpoint, if there is one; they are counted as lost."""
    found = judged(
        source=source(log(start=80), log(start=10)),
        checkpoint=checkpoint(60, 50),
        groups=(group(60, 50),),
        stores=(store(ledger(60, 50)),),
    )
    assert only(found).kind is Kind.RETENTION
    assert "failOnDataLoss=false" in only(found).fix
    assert found.count(Harm.LOST) == 20
    assert found.verdict == "20 records lost or not applied, to act on: 1"


def test_a_loss_is_accepted_by_a_command_and_then_no_longer_counts() -> None:
    """Where a ledger stands right before it; a query that goes on then finds it recorded."""
    logs, done = source(log(start=65)), checkpoint(60)
    found = judged(source=logs, checkpoint=done, stores=(store(ledger(60)),))
    accept = "eo-listener ledger accept LEDGER --sink delays --query flights"
    assert (
        f"{accept} --partition flights-0 --gap 60..65 -b k:9092; then stop the query"
        in only(found).fix
    )
    accepted = ledger(65, gaps={TP: (OffsetRange(60, 65),)})
    after = judged(source=logs, checkpoint=done, stores=(store(accepted),))
    assert not after.to_act_on
    assert (after.count(Harm.LOST), after.count(Harm.ACCEPTED)) == (0, 5)
    two = store(accepted, ledger(60, key=LedgerKey("b", "flights")))
    assert only(judged(source=logs, checkpoint=done, stores=(two,))).kind is Kind.RETENTION


def test_retention_past_a_group_of_a_query_that_is_not() -> None:
    """Nothing is lost for the query; whoever starts from the group would lose it."""
    found = judged(source=source(log(start=30)), checkpoint=checkpoint(60), groups=(group(20),))
    assert {one.kind for one in found.to_act_on} == {Kind.RETENTION, Kind.GROUP_BEHIND}
    assert found.count(Harm.LOST) == 0
    (below,) = (one for one in found.to_act_on if one.kind is Kind.RETENTION)
    assert below.fix == "eo-listener follow /c -b k:9092 -g g --once"


@pytest.mark.parametrize("place", ["groups", "stores"])
def test_records_deleted_are_known_without_a_checkpoint(place: str) -> None:
    """Then the ledger, or the group, says where the query goes on."""
    at = {"groups": (group(5),), "stores": (store(ledger(5)),)}
    found = judged(source=source(log(start=10)), **{place: at[place]})
    assert only(found).ranges == {TP: (OffsetRange(5, 10),)}


def test_an_open_transaction_is_said_and_is_no_lag() -> None:
    """A young one is a note."""
    found = judged(source=source(log(stable=90), open_since={TP: 3.0}), checkpoint=checkpoint(90))
    assert not found.to_act_on
    assert Kind.OPEN_TRANSACTION in {one.kind for one in found.findings}


def test_a_hanging_transaction() -> None:
    """Older than any coordinator leaves one open: the command that names it is printed."""
    found = only(
        judged(source=source(log(stable=90), open_since={TP: 7200.0}), checkpoint=checkpoint(90))
    )
    assert found.kind is Kind.HANGING_TRANSACTION
    assert "whose record is dated 120 minutes ago" in found.what
    assert "dates records by another time than now" in found.cause
    assert found.fix.endswith("txn list -b k:9092 --topic flights")


def test_new_partitions_are_a_note() -> None:
    """Nothing has read them yet."""
    found = judged(source=source(log(), log()), checkpoint=checkpoint(60))
    assert not found.to_act_on
    assert any(one.kind is Kind.NEW_PARTITIONS for one in found.findings)


# --- the checkpoint


@pytest.mark.parametrize(
    ("more", "fix"),
    [
        ({"stores": (store(ledger(60)),)}, 'starting_offsets(ledger=sink, query="flights"'),
        ({"groups": (group(60),)}, 'starting_offsets(group="g", missing="fail", options=...)'),
        ({}, "check the path"),
    ],
)
def test_a_deleted_checkpoint(more: dict[str, object], fix: str) -> None:
    """The way on is the ledger, else the group."""
    found = judged(checkpoint=CheckpointPositions(label="/c", exists=False), **more)
    assert only(found).kind is Kind.CHECKPOINT_MISSING
    assert fix in only(found).fix


def test_a_damaged_checkpoint() -> None:
    """Its files are named."""
    found = only(judged(checkpoint=checkpoint(60, damaged=("offsets/4 is cut off",))))
    assert found.kind is Kind.CHECKPOINT_DAMAGED
    assert "offsets/4 is cut off" in found.what
    assert found.fix.startswith("see the others: eo-listener checkpoint show /c; ")


@pytest.mark.parametrize(
    ("ledgers", "said"),
    [
        ((), "batch 5 is planned and not committed"),
        ((ledger(60),), "it is not applied, and will be repeated"),
        ((ledger(70),), "it is applied, and will be skipped"),
        ((ledger(70), ledger(60, key=LedgerKey("b", "flights"))), "of 2 sinks 1 have it"),
    ],
)
def test_a_batch_in_doubt(ledgers: tuple[LedgerPositions, ...], said: str) -> None:
    """Normal for a query at work, or one that was killed: whether it is applied is said."""
    stores = (store(*ledgers),) if ledgers else ()
    found = judged(checkpoint=checkpoint(60, ahead=[70]), stores=stores)
    assert not found.to_act_on
    (doubt,) = (one for one in found.findings if one.kind is Kind.BATCH_IN_DOUBT)
    assert said in doubt.what


def test_a_batch_in_doubt_is_not_a_group_behind() -> None:
    """The group follows what is committed."""
    found = judged(checkpoint=checkpoint(60, ahead=[70]), groups=(group(60),))
    assert not found.to_act_on


# --- groups


@pytest.mark.parametrize(
    ("had", "cause"), [(False, "its offsets expired"), (True, "all its offsets expire at once")]
)
def test_an_expired_group(had: bool, cause: str) -> None:
    """It is committed from the checkpoint."""
    empty = GroupPositions(name="g", before={}, after={}, had_members=had)
    found = only(judged(checkpoint=checkpoint(60), groups=(empty,)))
    assert found.kind is Kind.GROUP_EMPTY
    assert cause in found.cause
    assert found.fix == "eo-listener follow /c -b k:9092 -g g --once"


def test_a_group_that_lacks_partitions() -> None:
    """Of topics that it holds something of: a query's other topics may have other groups."""
    found = only(judged(checkpoint=checkpoint(60, 50), groups=(group(60),)))
    assert (found.kind, "flights-1" in found.what) == (Kind.GROUP_LACKS, True)
    others = replace(group(60), before={TopicPartition("other", 0): held(1)[TP]}, after=held(60))
    assert not judged(checkpoint=checkpoint(60), groups=(others,)).to_act_on


def test_a_group_that_lacks_a_whole_topic() -> None:
    """It is not fine, unless another group that is named has the topic."""
    weather = TopicPartition("weather", 0)
    both = replace(checkpoint(60), done={TP: 60, weather: 9})
    found = judged(checkpoint=both, groups=(group(60),))
    assert (only(found).kind, "topic weather" in only(found).what) == (Kind.GROUP_LACKS, True)
    assert only(found).fix.endswith("follow /c -b k:9092 -g flights=g -g weather=g --once")
    assert not any(
        one.kind is Kind.AGREED and one.about.startswith("group") for one in found.findings
    )
    assert not judged(
        checkpoint=both, groups=(group(60),), uncommitted=frozenset({"weather"})
    ).to_act_on
    held = {weather: group(9).after[TP]}
    other = GroupPositions(name="h", before=held, after=held)
    assert not judged(checkpoint=both, groups=(group(60), other)).to_act_on
    empty = GroupPositions(name="h", before={}, after={})
    assert only(judged(checkpoint=both, groups=(group(60), empty))).kind is Kind.GROUP_EMPTY
    gone = judged(checkpoint=both, groups=(group(60),), source=source(log()))
    assert {one.kind for one in gone.to_act_on} == {Kind.TOPIC_GONE}
    damaged = replace(both, damaged=("offsets/4 is cut off",))
    (lacks,) = (
        one
        for one in judged(checkpoint=damaged, groups=(group(60),)).to_act_on
        if one.kind is Kind.GROUP_LACKS
    )
    assert "see to the checkpoint first" in lacks.fix


def test_a_group_behind() -> None:
    """No listener runs, or its commits fail."""
    found = only(judged(checkpoint=checkpoint(60), groups=(group(40),)))
    assert found.kind is Kind.GROUP_BEHIND
    assert "20 records too high" in found.what


def test_a_group_that_catches_up_while_it_is_read() -> None:
    """Behind counts by the last reading, ahead by the first."""
    busy = group(40, after=held(75))
    assert not judged(checkpoint=checkpoint(60), groups=(busy,)).to_act_on


def test_a_group_ahead() -> None:
    """Whoever starts from it skips records; going back is declared."""
    found = only(judged(checkpoint=checkpoint(60), groups=(group(90),)))
    assert found.kind is Kind.GROUP_AHEAD
    assert "skips 30 records" in found.what
    assert found.fix == "eo-listener follow /c -b k:9092 -g g --once --on-rewind allow"


def test_a_group_ahead_of_the_ledger_alone() -> None:
    """Without a checkpoint the ledgers say what is done."""
    given = Positions(groups=(group(90),), stores=(store(ledger(60)),))
    found = only(outcome(judge_positions(given, Advice(cluster=ClusterCommands(servers="k:9092")))))
    assert (found.kind, found.ranges) == (Kind.GROUP_AHEAD, {TP: (OffsetRange(60, 90),)})
    assert found.fix.startswith("name the query's checkpoint")


def test_a_group_that_a_sink_commits_with_its_batch() -> None:
    """Is ahead of the checkpoint by the batch in doubt, and not by more."""
    own = held(70, by_sink=True)
    busy = GroupPositions(name="g", before=own, after=own)
    assert not judged(checkpoint=checkpoint(60, ahead=[70]), groups=(busy,)).to_act_on
    found = only(judged(checkpoint=checkpoint(60, ahead=[65]), groups=(busy,)))
    assert found.ranges == {TP: (OffsetRange(65, 70),)}


def test_two_drivers_on_a_group() -> None:
    """By the query ids in its commits: another than the checkpoint's, or two."""
    other = GroupPositions(name="g", before=held(60), after=held(60, query="deadbeef-0"))
    found = only(judged(checkpoint=checkpoint(60), groups=(other,)))
    assert (found.kind, "id deadbeef" in found.what) == (Kind.GROUP_FOREIGN, True)
    mixed = {TP: held(60)[TP], OTHER: held(1, 50, query="deadbeef-0")[OTHER]}
    found = only(judged(groups=(GroupPositions(name="g", before=mixed, after=mixed),)))
    assert "deadbeef" in found.what
    assert "0f8c2a11" in found.what


def test_another_program_on_a_group() -> None:
    """Its commits carry no metadata of ours."""
    bare = {TP: Position(offset=60, metadata="")}
    found = only(
        judged(
            checkpoint=checkpoint(60), groups=(GroupPositions(name="g", before=bare, after=bare),)
        )
    )
    assert (found.kind, "another program" in found.what) == (Kind.GROUP_FOREIGN, True)


def test_a_withheld_group_is_not_called_behind() -> None:
    """The guard's mark says why it is."""
    marked = held(40, withheld=True)
    found = only(
        judged(
            checkpoint=checkpoint(60),
            groups=(GroupPositions(name="g", before=marked, after=marked),),
        )
    )
    assert found.kind is Kind.GROUP_WITHHELD


# --- ledgers


BACK = TakenBack("version 7 restored the table", "RESTORE TABLE t TO VERSION AS OF 6")


def test_a_table_that_was_taken_back() -> None:
    """What was done and the command that undoes it come first, then the way to begin again."""
    found = only(judged(checkpoint=checkpoint(90), stores=(store(ledger(60, taken_back=BACK)),)))
    assert (found.kind, found.cause) == (Kind.LEDGER_BEHIND, BACK.cause)
    assert found.fix.startswith(f"{BACK.fix}; or, where that was meant, stop the query;")
    assert found.ranges == {TP: (OffsetRange(60, 90),)}
    found = only(judged(checkpoint=checkpoint(90), stores=(store(ledger(taken_back=BACK)),)))
    assert (found.kind, found.cause) == (Kind.LEDGER_LACKS, BACK.cause)
    assert found.fix.startswith(f"{BACK.fix}; or, where that was meant, start the query")


def test_a_table_that_was_replaced() -> None:
    """No command undoes it."""
    back = BACK._replace(fix="")
    found = only(judged(checkpoint=checkpoint(90), stores=(store(ledger(taken_back=back)),)))
    assert (found.kind, found.cause) == (Kind.LEDGER_LACKS, BACK.cause)
    assert found.fix.startswith("start the query with a new checkpointLocation")


def test_a_table_that_was_taken_back_where_nothing_is_behind() -> None:
    """Without a checkpoint it is a warning; where one goes on from there, it was meant."""
    alone = judged(stores=(store(ledger(60, taken_back=BACK)),))
    assert alone.verdict == "nothing found lost or doubled, to act on: 1"
    found = only(alone)
    assert (found.kind, found.severity) == (Kind.LEDGER_TAKEN_BACK, Severity.WARNING)
    assert BACK.cause in found.what
    assert found.fix.startswith(BACK.fix)
    again = judged(checkpoint=checkpoint(60), stores=(store(ledger(60, taken_back=BACK)),))
    assert again.verdict == "nothing lost, nothing doubled, nothing to act on"
    assert Kind.LEDGER_TAKEN_BACK in {one.kind for one in again.findings}


def test_a_ledger_behind_the_checkpoint() -> None:
    """A restored store: its records are counted, and those that Kafka no longer has."""
    found = judged(
        source=source(log(start=45)), checkpoint=checkpoint(60), stores=(store(ledger(40)),)
    )
    assert only(found).kind is Kind.LEDGER_BEHIND
    assert "20 records" in only(found).what
    assert "Kafka has deleted up to 5" in only(found).what
    assert found.count(Harm.LOST) == 20


def test_a_ledger_ahead_of_the_checkpoint() -> None:
    """Nothing is lost or doubled; who has moved it is said."""
    found = judged(checkpoint=checkpoint(60), stores=(store(ledger(90)),))
    assert only(found).kind is Kind.LEDGER_AHEAD
    assert "restored from an older copy" in only(found).cause
    assert found.count(Harm.LOST) == found.count(Harm.DOUBLED) == 0
    assert found.verdict.startswith("nothing lost, nothing doubled")


def test_two_drivers_on_a_ledger() -> None:
    """Another checkpoint's query id moved it."""
    found = only(
        judged(checkpoint=checkpoint(60), stores=(store(ledger(head(90, query="other"))),))
    )
    assert found.kind is Kind.LEDGER_AHEAD
    assert "query id other" in found.cause


def test_a_ledger_within_the_planned_batch() -> None:
    """It was applied by another plan: the batch will be refused."""
    found = only(judged(checkpoint=checkpoint(60, ahead=[90]), stores=(store(ledger(70)),)))
    assert (found.kind, found.ranges) == (Kind.LEDGER_MISFIT, {TP: (OffsetRange(70, 90),)})


def test_a_ledger_that_lacks_partitions() -> None:
    """Unless nothing of them was read."""
    found = judged(checkpoint=checkpoint(60, 50), stores=(store(ledger(60)),))
    assert (only(found).kind, found.count(Harm.LOST)) == (Kind.LEDGER_LACKS, 50)
    idle = checkpoint(60, 50, began={OTHER: 50})
    assert not judged(checkpoint=idle, stores=(store(ledger(60)),)).to_act_on


def test_a_ledger_under_another_name() -> None:
    """It is found by the checkpoint's query id."""
    found = only(
        judged(
            checkpoint=checkpoint(60),
            stores=(store(renamed=(LedgerKey("delays", "old"),)),),
            query="new",
        )
    )
    assert found.kind is Kind.LEDGER_RENAMED
    assert found.fix.startswith(
        "name it as the ledger does, --query old; or, where it was renamed, "
        "eo-listener ledger rename LEDGER --sink delays --query old --to-query new; "
    )
    assert "name='old'" in found.fix


def test_a_ledger_of_another_table_is_carried_over_to_that_table() -> None:
    """The query has kept its name, so the command changes that of the sink alone."""
    old = store(renamed=(LedgerKey("old", "flights"),))
    found = only(judged(checkpoint=checkpoint(60), stores=(old,), query="flights", sink="delays"))
    assert found.fix.startswith(
        "name it as the ledger does, --sink old; or, where it was renamed, "
        "eo-listener ledger rename LEDGER --sink old --query flights --to-sink delays; "
    )


@pytest.mark.parametrize(
    ("address", "more", "asks"),
    [
        ("kafka:l", " -b k:9092", ""),
        ("kafka://h:9092/l", "", " -b k:9092"),
        ("sqlite:l", "", " -b k:9092"),
        ("delta:/d", " (with the same --spark-conf)", " -b k:9092"),
    ],
)
def test_a_command_for_a_ledger_says_how_it_is_reached(address: str, more: str, asks: str) -> None:
    """A topic needs its cluster, a table the settings of its catalog; a gap is in a log."""
    under = store(renamed=(LedgerKey("delays", "old"),), address=address)
    found = only(judged(checkpoint=checkpoint(60), stores=(under,), query="new"))
    command = f"ledger rename {address} --sink delays --query old --to-query new{more}; "
    assert f"eo-listener {command}" in found.fix
    at = store(ledger(60), address=address)
    lost = only(judged(source=source(log(start=65)), checkpoint=checkpoint(60), stores=(at,)))
    assert f"--gap 60..65{asks}{more}" in lost.fix


def test_an_empty_ledger() -> None:
    """Which queries it has instead is said."""
    found = only(judged(checkpoint=checkpoint(60), stores=(store(others=(KEY,)),), query="nosuch"))
    assert found.kind is Kind.LEDGER_EMPTY
    assert "query 'flights', sink 'delays'" in found.what


def test_sinks_that_differ() -> None:
    """Without a checkpoint they are compared with each other; with one, each with that."""
    both = store(ledger(60), ledger(50, key=LedgerKey("b", "flights")))
    assert only(judged(stores=(both,))).kind is Kind.SINKS_DIFFER
    assert only(judged(checkpoint=checkpoint(60), stores=(both,))).kind is Kind.LEDGER_BEHIND


def test_sinks_of_a_query_at_work_do_not_differ() -> None:
    """One was read after the other: each may have been where the other was at one moment."""
    other = LedgerKey("b", "flights")
    moved = store(ledger(60), ledger(50, key=other, later={TP: 70}))
    assert not judged(stores=(moved,)).to_act_on
    both = store(ledger(60, later={TP: 80}), ledger(50, key=other, later={TP: 61}))
    assert not judged(stores=(both,)).to_act_on
    stuck = store(ledger(60, later={TP: 80}), ledger(50, key=other, later={TP: 50}))
    assert only(judged(stores=(stuck,))).kind is Kind.SINKS_DIFFER


def test_what_the_history_records() -> None:
    """Missing offsets are lost, repeated ones doubled, accepted gaps are counted apart."""
    found = judged(
        stores=(
            store(
                ledger(
                    60,
                    missing={TP: (OffsetRange(10, 12),)},
                    repeated={TP: (OffsetRange(20, 23),)},
                    gaps={TP: (OffsetRange(30, 34), OffsetRange(40, 41))},
                )
            ),
        )
    )
    assert found.verdict == (
        "2 records lost or not applied, 3 records doubled, 5 records lost before and accepted, "
        "to act on: 2"
    )


def test_a_batch_that_was_begun() -> None:
    """Of a sink without transactions: only its own query can finish it."""
    assert only(judged(stores=(store(ledger(60, begun=5)),))).kind is Kind.BATCH_BEGUN


def test_batches_of_other_sources_are_compared_too() -> None:
    """As one partition of the ledger, which no log has."""
    batches = {TP: 60, BATCHES: 5}
    given = replace(checkpoint(60), counted=True, done=batches, ahead=batches)
    heads = {TP: head(60), BATCHES: head(4, topic_id="plan")}
    behind = replace(ledger(60), heads=heads)
    found = only(judged(source=source(log()), checkpoint=given, stores=(store(behind),)))
    assert found.ranges == {BATCHES: (OffsetRange(4, 5),)}


# --- the whole


def test_one_offset_lost_in_two_ways_counts_once() -> None:
    """Two sinks that lack the same records."""
    both = (store(ledger(40)), store(ledger(50, key=LedgerKey("b", "flights"))))
    assert judged(checkpoint=checkpoint(60), stores=both).count(Harm.LOST) == 20


def test_what_could_not_be_read_makes_it_incomplete() -> None:
    """The verdict names it, and does not say that there is nothing to do."""
    error = KafkaError("reading failed", code="_TRANSPORT", cause="c", fix="f")
    found = outcome([not_read("cluster k:9092", error)])
    assert not found.complete
    assert found.verdict == (
        "nothing found lost or doubled, INCOMPLETE: cluster k:9092 could not be read, see its fix"
    )
    bare = not_read("sqlite s.db", SinkError("it is locked"))
    assert bare.fix
    other = judged(checkpoint=checkpoint(60), groups=(group(40),)).findings
    both = outcome([*other, bare])
    assert both.verdict.endswith(
        "to act on: 1, INCOMPLETE: sqlite s.db could not be read, see its fix"
    )


def test_rows_are_counted_by_kind() -> None:
    """A finding for each kind, however many ranges there are; documents stay bounded."""
    rows = [
        AuditFinding(
            kind=AuditFindingKind.MISSING, partition=TP, range=OffsetRange(2 * n, 2 * n + 1)
        )
        for n in range(SHOWN + 7)
    ]
    rows.append(
        AuditFinding(kind=AuditFindingKind.DUPLICATE, partition=TP, range=OffsetRange(1, 2))
    )
    rows.append(AuditFinding(kind=AuditFindingKind.MARKER, partition=TP, range=OffsetRange(3, 4)))
    found = outcome(judge_rows(ledger(60), "delays", rows, ADVICE, 9))
    kinds = [one.kind for one in found.findings]
    assert kinds == [Kind.ROWS_EXPLAINED, Kind.ROWS_MISSING, Kind.ROWS_DOUBLED]
    assert found.verdict == "1,007 records lost or not applied, 1 record doubled, to act on: 2"
    document = found.findings[1].document()
    assert document["offsets"] == SHOWN + 7
    assert len(document["ranges"]) == SHOWN  # type: ignore[arg-type]  # a list


def test_rows_that_are_all_there() -> None:
    """One line says so."""
    (found,) = judge_rows(ledger(60), "delays", [], ADVICE, 9)
    assert (found.kind, found.severity) == (Kind.AGREED, Severity.FINE)


_ADDRESSES = ("sqlite:a b.db", "postgresql://me@h/db", "kafka:l", "kafka://h:9092/l", "delta:/d")


def test_commands_quote_and_name_what_they_need() -> None:
    """Names with blanks are one word, and secrets are never printed."""
    cluster = ClusterCommands(servers="k:9092", client=True, storage=True)
    asked = Advice(cluster=cluster, checkpoint="/with blank")
    assert asked.commit_checkpoint("my group", rewind=False) == (
        "eo-listener follow '/with blank' -b k:9092 -g 'my group' --once "
        "(with the same -X and --storage)"
    )
    key = LedgerKey("a sink", "it's $HOME")
    assert asked.accept_gap("kafka://h:9092/l", key, TP, OffsetRange(1, 2)) == (
        "eo-listener ledger accept kafka://h:9092/l --sink 'a sink' --query 'it'\"'\"'s $HOME' "
        "--partition flights-0 --gap 1..2 -b k:9092 (with the same -X)"
    )
    odd = LedgerKey("-x", "- é\n")
    for command in (
        asked.commit_checkpoint("-g", rewind=True),
        asked.show_checkpoint(),
        asked.show_transactions(["-t"]),
        asked.show_transactions_on("-g"),
        asked.preflight("-t"),
        *(asked.accept_gap(at, odd, TP, OffsetRange(1, 2)) for at in _ADDRESSES),
        *(asked.rename_ledger(at, key, odd) for at in _ADDRESSES),
    ):
        require_typable(command)
    named = LedgerPositions(store="s", key=LedgerKey("s", 'C:\\new "x"'), heads={})
    assert r'query="C:\\new \"x\""' in asked.begin_from_ledger(named)


def test_a_group_of_one_topic_is_not_given_the_others() -> None:
    """A query of several topics may commit each to a group of its own."""
    both = replace(checkpoint(60), done={TP: 60, TopicPartition("weather", 0): 9})
    held = {TopicPartition("weather", 0): group(9).after[TP]}
    other = GroupPositions(name="h", before=held, after=held)
    found = only(judged(checkpoint=both, groups=(group(40), other)))
    assert found.fix == "eo-listener follow /c -b k:9092 -g flights=g --once"
