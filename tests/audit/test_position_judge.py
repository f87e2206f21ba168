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


@pytest.mark.parametrize("left", ["source", "checkpoint", "groups", "stores"])
def test_any_of_the_four_may_be_missing(left: str) -> None:
    """What was not asked for is not judged, and the others are."""
    assert judged().findings == ()
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


# --- one finding each


def of_group(
    first: Mapping[TopicPartition, Position], after: Mapping[TopicPartition, Position] | None = None
) -> dict[str, object]:
    after = first if after is None else after
    return {"groups": (GroupPositions(name="g", before=first, after=after),)}


def stored(*ledgers: LedgerPositions, **more: object) -> dict[str, object]:
    return {"stores": (store(*ledgers, **more),)}


def expired(*, had: bool) -> dict[str, object]:
    return {"groups": (GroupPositions(name="g", before={}, after={}, had_members=had),)}


DONE: dict[str, object] = {"checkpoint": checkpoint(60)}
OF_60: dict[str, object] = {"groups": (group(60),)}
FOLLOW = "eo-listener follow /c -b k:9092 -g g --once"
SECOND = LedgerKey("b", "flights")
OTHER_QUERY = held(1, 50, query="deadbeef-0")
TWO_QUERIES = of_group({TP: held(60)[TP], OTHER: OTHER_QUERY[OTHER]})
NO_METADATA = {TP: Position(offset=60, metadata="")}
OPEN = source(log(stable=90), open_since={TP: 7200.0})
OLD_NAME, OLD_TABLE = LedgerKey("delays", "old"), LedgerKey("old", "flights")
RENAME = "or, where it was renamed, eo-listener ledger rename LEDGER --sink "
STUCK = stored(ledger(60, later={TP: 80}), ledger(50, key=SECOND, later={TP: 50}))
WEATHER = TopicPartition("weather", 0)
OF_WEATHER = {WEATHER: held(9)[TP]}
TWO_GROUPS = (group(40), GroupPositions(name="h", before=OF_WEATHER, after=OF_WEATHER))
TWO_TOPICS = replace(checkpoint(60), done={TP: 60, WEATHER: 9})
RECREATED = {"source": source(log(topic_id="B")), **DONE, "groups": (group(70),)}


@pytest.mark.parametrize(
    ("given", "kind", "parts"),
    [
        # Deleted, hidden from the client, or another cluster; nothing else is concluded from it.
        ({"source": source(), **DONE, **stored(ledger(50))}, Kind.TOPIC_GONE,
         ["eo-listener preflight -b k:9092 -t flights"]),
        # Topics never shrink, so it was recreated.
        ({"source": source(log()), "checkpoint": checkpoint(60, 50)}, Kind.TOPIC_GONE,
         ["flights-1"]),
        # The ledger knows the id; offsets of the two topics are not compared.
        ({**RECREATED, **stored(ledger(50))}, Kind.TOPIC_RECREATED,
         ["was A, and is B", 'recreated="earliest"', 'on_recreated="restart"']),
        # Older than any coordinator leaves one open, or a record with another date.
        ({"source": OPEN, "checkpoint": checkpoint(90)}, Kind.HANGING_TRANSACTION,
         ["120 minutes", "dates records", "txn list -b k:9092 --topic flights"]),
        ({"checkpoint": checkpoint(60, damaged=("offsets/4 is cut off",))}, Kind.CHECKPOINT_DAMAGED,
         ["offsets/4 is cut off", "eo-listener checkpoint show /c; "]),
        # A group is committed from the checkpoint, of its own topics.
        ({**DONE, **expired(had=False)}, Kind.GROUP_EMPTY, ["its offsets expired", FOLLOW]),
        ({**DONE, **expired(had=True)}, Kind.GROUP_EMPTY, ["expire at once", FOLLOW]),
        ({**DONE, "groups": (group(40),)}, Kind.GROUP_BEHIND, ["20 records", FOLLOW]),
        ({"checkpoint": TWO_TOPICS, "groups": TWO_GROUPS}, Kind.GROUP_BEHIND,
         ["eo-listener follow /c -b k:9092 -g flights=g --once"]),
        # Whoever starts from it skips records; going back is declared.
        ({**DONE, "groups": (group(90),)}, Kind.GROUP_AHEAD,
         ["30 records", f"{FOLLOW} --on-rewind allow"]),
        # By the query ids in its commits: another than the checkpoint's, or two, or none.
        ({**DONE, **of_group(held(60), held(60, query="deadbeef-0"))}, Kind.GROUP_FOREIGN,
         ["id deadbeef"]),
        (TWO_QUERIES, Kind.GROUP_FOREIGN, ["deadbeef", "0f8c2a11"]),
        ({**DONE, **of_group(NO_METADATA)}, Kind.GROUP_FOREIGN, ["another program"]),
        # The guard's mark says why the group is behind.
        ({**DONE, **of_group(held(40, withheld=True))}, Kind.GROUP_WITHHELD, []),
        # Another checkpoint's query has moved the ledger.
        ({**DONE, **stored(ledger(head(90, query="other")))}, Kind.LEDGER_AHEAD,
         ["query id other"]),
        # It was applied by another plan: the batch will be refused.
        ({"checkpoint": checkpoint(60, ahead=[90]), **stored(ledger(70))}, Kind.LEDGER_MISFIT,
         ["flights-0 70..90"]),
        # A ledger under another name is found by the checkpoint's query id, and keeps the rest.
        ({**DONE, **stored(renamed=(OLD_NAME,)), "query": "new"}, Kind.LEDGER_RENAMED,
         ["--query old; ", RENAME + "delays --query old --to-query new; ", "name='old'"]),
        ({**DONE, **stored(renamed=(OLD_TABLE,)), "query": "flights", "sink": "delays"},
         Kind.LEDGER_RENAMED, ["--sink old; ", RENAME + "old --query flights --to-sink delays; "]),
        ({**DONE, **stored(others=(KEY,)), "query": "nosuch"}, Kind.LEDGER_EMPTY,
         ["query 'flights', sink 'delays'"]),
        # Sinks are compared with the checkpoint, without one with each other.
        (stored(ledger(60), ledger(50, key=SECOND)), Kind.SINKS_DIFFER, []),
        ({**DONE, **stored(ledger(60), ledger(50, key=SECOND))}, Kind.LEDGER_BEHIND, []),
        (STUCK, Kind.SINKS_DIFFER, []),
        # Of a sink without transactions: only its own query can finish it.
        (stored(ledger(60, begun=5)), Kind.BATCH_BEGUN, []),
    ],
)  # fmt: skip  # one case a line
def test_one_thing_is_wrong(given: dict[str, object], kind: Kind, parts: list[str]) -> None:
    """It has one finding, with its facts, the likely cause, and what to type."""
    found = only(judged(**given))
    assert found.kind is kind
    ranges = [f"{tp} {one}" for tp, of in found.ranges.items() for one in of]
    text = " ".join([found.what, found.cause, found.fix, *ranges])
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize(
    ("given", "note"),
    [
        # A young transaction, and partitions that nothing has read yet.
        ({"source": source(log(stable=90), open_since={TP: 3.0}), "checkpoint": checkpoint(90)},
         Kind.OPEN_TRANSACTION),
        ({"source": source(log(), log()), **DONE}, Kind.NEW_PARTITIONS),
        # A group follows what is committed; behind counts by the last reading, ahead by the first.
        ({"checkpoint": checkpoint(60, ahead=[70]), **OF_60}, Kind.BATCH_IN_DOUBT),
        ({**DONE, "groups": (group(40, after=held(75)),)}, Kind.AGREED),
        # One sink was read after the other, and may have been where that was at one moment.
        (stored(ledger(60), ledger(50, key=SECOND, later={TP: 70})), None),
        (stored(ledger(60, later={TP: 80}), ledger(50, key=SECOND, later={TP: 61})), None),
    ],
)  # fmt: skip  # one case a line
def test_nothing_is_wrong(given: dict[str, object], note: Kind | None) -> None:
    """What is usual for a query at work is a note at most."""
    found = judged(**given)
    assert not found.to_act_on
    assert note is None or note in {one.kind for one in found.findings}


# --- the source's logs


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


# --- groups


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


def test_a_ledger_that_lacks_partitions() -> None:
    """Unless nothing of them was read."""
    found = judged(checkpoint=checkpoint(60, 50), stores=(store(ledger(60)),))
    assert (only(found).kind, found.count(Harm.LOST)) == (Kind.LEDGER_LACKS, 50)
    idle = checkpoint(60, 50, began={OTHER: 50})
    assert not judged(checkpoint=idle, stores=(store(ledger(60)),)).to_act_on


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
