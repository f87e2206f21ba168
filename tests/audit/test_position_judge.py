"""Positions side by side: each disaster has its finding, its records counted, and what to type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eo_listener.audit.advice import Advice
from eo_listener.audit.intervals import Intervals
from eo_listener.audit.position_finding import (
    SHOWN,
    AuditOutcome,
    Harm,
    PositionFindingKind,
    outcome,
)
from eo_listener.audit.position_judge import judge_positions, judge_rows, not_read
from eo_listener.audit.positions import CheckpointPositions, LedgerPositions, Positions
from eo_listener.audit.proof import AuditFinding, AuditFindingKind
from eo_listener.errors import KafkaError, SinkError
from eo_listener.model.check_finding import Severity
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.ledger import LedgerKey, TableRollback
from eo_listener.model.planned_batch import BATCHES
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import OffsetRange, Position, TopicPartition
from tests.audit.made_up import (
    ADVICE,
    FILE,
    KEY,
    OTHER,
    SECOND,
    TP,
    Given,
    Held,
    checkpoint,
    done,
    group,
    grouped,
    head,
    held,
    judged,
    kinds,
    ledger,
    log,
    logged,
    noted,
    only,
    stored,
)
from tests.documents.test_commands import require_typable

Kind = PositionFindingKind
DONE = done(60)
APPLIED = ledger(head(70, start=60))
PLACES = {"log": "source", "checkpoint": "checkpoint", "group": "groups", "ledger": "stores"}
ALL_FOUR = logged(log(), log()) | done(60, 50) | grouped(60, 50) | stored(ledger(60, 50))


def agrees(found: AuditOutcome) -> bool:
    return "nothing lost" in found.verdict and not found.to_act_on


@pytest.mark.parametrize("left", [None, *ALL_FOUR])
def test_what_agrees_is_said_of_each_that_was_asked_for(left: str | None) -> None:
    """A line for each of the four, any of which may be missing, and what was compared."""
    given = {name: one for name, one in ALL_FOUR.items() if name != left}
    found = judged(given)
    assert [one.kind for one in found.findings] == [Kind.AGREED] * len(given)
    assert not found.to_act_on
    # Without the ledger or the checkpoint nothing shows that a sink has what the query has read.
    assert ("nothing lost" in found.verdict) is ({"checkpoint", "stores"} <= given.keys())
    assert found.document()["compared"] == [
        name for name, place in PLACES.items() if place in given
    ]


def in_group(before: Held, after: Held | None = None, **more: Any) -> Given:
    return {"groups": (group(before, after, **more),)}


SEED = "eo-listener group seed -b k:9092 --from-checkpoint /c g"
REWIND = SEED.replace("seed", "rewind")
OTHER_QUERY = held(1, 50, query="deadbeef-0")
TWO_QUERIES = in_group({TP: held(60)[TP], OTHER: OTHER_QUERY[OTHER]})
OF_SECOND = replace(checkpoint(), done={OTHER: 60}, ahead={OTHER: 60}, began={OTHER: 0})
OLDER = held(40, query="deadbeef-0")
UNMARKED = {TP: Position(offset=40, metadata="")}


def rewound(start: int) -> Held:
    """Return what a group holds that `group rewind` moved back from `start`."""
    author = CommitMetadata(name="", query_id="", run_id="0", batch_id=-1, command="group rewind")
    return {TP: Position(offset=40, metadata=author.rewinding(start).text())}


NO_METADATA = {TP: Position(offset=60, metadata="")}
OPEN = logged(log(stable=90), open_since={TP: 7200.0})
OLD_NAME, OLD_TABLE = LedgerKey("delays", "old"), LedgerKey("old", "flights")
RENAME = "eo-listener ledger rename LEDGER --sink "
STUCK = stored(ledger(60, later={TP: 80}), ledger(50, key=SECOND, later={TP: 50}))
WEATHER = TopicPartition("weather", 0)
OF_WEATHER = group({WEATHER: held(9)[TP]}, name="h")
TWO_GROUPS = {"groups": (group(held(40)), OF_WEATHER)}
TWO_TOPICS = replace(checkpoint(60), done={TP: 60, WEATHER: 9})
OF_TWO_TOPICS = {"checkpoint": TWO_TOPICS}
RECREATED = logged(log(topic_id="B")) | DONE | grouped(70) | stored(ledger(50))


@pytest.mark.parametrize(
    ("given", "kind", "parts"),
    [
        # Deleted, hidden from the client, or another cluster; nothing else is concluded from it.
        (logged() | DONE | stored(ledger(50)), Kind.TOPIC_GONE,
         ["eo-listener preflight -b k:9092 -t flights"]),
        # Topics never shrink, so it was recreated.
        (logged(log()) | done(60, 50), Kind.TOPIC_GONE, ["flights-1"]),
        # The ledger knows the id; offsets of the two topics are not compared.
        (RECREATED, Kind.TOPIC_RECREATED,
         ["was A and is now B", 'recreated="earliest"', 'on_recreated="restart"']),
        # Older than any coordinator leaves one open, or a record with another date.
        (OPEN | done(90), Kind.HANGING_TRANSACTION,
         ["120 minutes", "other timestamps", "txn list -b k:9092 --topic flights"]),
        (done(60, damaged=("offsets/4 is cut off",)), Kind.CHECKPOINT_DAMAGED,
         ["offsets/4 is cut off", "eo-listener checkpoint show /c; "]),
        # A group is committed from the checkpoint, of its own topics.
        (DONE | in_group({}, had_members=False), Kind.GROUP_EMPTY, ["its offsets expired", SEED]),
        (DONE | in_group({}, had_members=True), Kind.GROUP_EMPTY, ["expire together", SEED]),
        (DONE | grouped(40), Kind.GROUP_BEHIND, ["20 records", SEED]),
        (OF_TWO_TOPICS | TWO_GROUPS, Kind.GROUP_BEHIND,
         ["eo-listener group seed -b k:9092 --from-checkpoint /c -t flights g"]),
        # Of topics that it holds something of: a query's other topics may have other groups.
        (done(60, 50) | grouped(60), Kind.GROUP_LACKS, ["flights-1"]),
        (OF_TWO_TOPICS | grouped(60), Kind.GROUP_LACKS,
         ["topic weather", "group seed -b k:9092 --from-checkpoint /c -t flights -t weather g"]),
        (OF_TWO_TOPICS | {"groups": (group(held(60)), group({}, name="h"))}, Kind.GROUP_EMPTY, []),
        (OF_TWO_TOPICS | grouped(60) | logged(log()), Kind.TOPIC_GONE, []),
        # Whoever starts from it skips records; going back is declared.
        (DONE | grouped(90), Kind.GROUP_AHEAD, ["30 records", REWIND]),
        # By the query ids in its commits: another than the checkpoint's, or two, or none.
        (DONE | grouped(60, after=held(60, query="deadbeef-0")), Kind.GROUP_FOREIGN,
         ["id deadbeef"]),
        (TWO_QUERIES, Kind.GROUP_FOREIGN, ["deadbeef", "0f8c2a11"]),
        (DONE | in_group(NO_METADATA), Kind.GROUP_FOREIGN, ["another program"]),
        # A new checkpoint at the latest offset: a commit would remove the only trace of the loss.
        (done(55, began={TP: 55}) | in_group(OLDER), Kind.NEVER_READ,
         ["15 records", 'starting_offsets(group="g"']),
        (done(60, began={TP: 55}) | in_group(OLDER), Kind.NEVER_READ, ["40..55", "spark.read"]),
        # A partition was added, and Kafka deleted its beginning before the query read it.
        (logged(log(), log(start=50)) | DONE, Kind.NEW_PARTITIONS, ["flights-1 0..50", "assign"]),
        # The guard's mark says why the group is behind.
        (DONE | in_group(held(40, withheld=True)), Kind.GROUP_WITHHELD, []),
        # The sink commits with its batch: it may be ahead by that, and not by more.
        (done(60, ahead=[65]) | in_group(held(70, by_sink=True)), Kind.GROUP_AHEAD,
         ["flights-0 65..70"]),
        # Another checkpoint's query has moved the ledger.
        (DONE | stored(ledger(head(90, query="other"))), Kind.BATCH_REFUSED, ["query id other"]),
        # It was applied by another plan: the batch will be refused.
        (done(60, ahead=[90]) | stored(ledger(70)), Kind.BATCH_REFUSED,
         ["batch 5", "OverlapError"]),
        # A ledger under another name is found by the checkpoint's query id, and keeps the rest.
        (DONE | stored(renamed={OLD_NAME: {}}) | {"query": "new"}, Kind.LEDGER_RENAMED,
         ["--query old; ", RENAME + "delays --query old ", "--to-query new; ", "name='old'"]),
        (DONE | stored(renamed={OLD_TABLE: {}}) | {"query": "flights", "sink": "delays"},
         Kind.LEDGER_RENAMED, ["--sink old; ", RENAME + "old --query flights --to-sink delays; "]),
        (DONE | stored(other_keys=(KEY,)) | {"query": "nosuch"}, Kind.LEDGER_EMPTY,
         ["query 'flights', sink 'delays'"]),
        # Sinks are compared with the checkpoint, without one with each other.
        (stored(ledger(60), ledger(50, key=SECOND)), Kind.SINKS_DIFFER, []),
        (DONE | stored(ledger(60), ledger(50, key=SECOND)), Kind.LEDGER_BEHIND, []),
        (STUCK, Kind.SINKS_DIFFER, []),
        # Of a sink without transactions: only its own query can finish it.
        (stored(ledger(60, unfinished_batch=5)), Kind.BATCH_BEGUN, []),
        # Without a checkpoint the ledger, or the group, says where the query goes on.
        (logged(log(start=10)) | grouped(5), Kind.RETENTION, ["flights-0 5..10"]),
        (logged(log(start=10)) | stored(ledger(5)), Kind.RETENTION, ["flights-0 5..10"]),
    ],
)  # fmt: skip  # one case a line
def test_one_thing_is_wrong(given: Given, kind: Kind, parts: list[str]) -> None:
    """It has one finding, with its facts, the likely cause, and what to type."""
    found = only(judged(given))
    assert found.kind is kind
    ranges = [f"{tp} {one}" for tp, of in found.ranges.items() for one in of]
    text = " ".join([found.what, found.cause, found.fix, *ranges])
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize(
    ("given", "note"),
    [
        # A young transaction, and partitions that nothing has read yet.
        (logged(log(stable=90), open_since={TP: 3.0}) | done(90), Kind.OPEN_TRANSACTION),
        (logged(log(), log()) | DONE, Kind.NEW_PARTITIONS),
        # A group follows what is committed; behind counts by the last reading, ahead by the first.
        (done(60, ahead=[70]) | grouped(60), Kind.BATCH_IN_DOUBT),
        (done(60, ahead=[70]) | in_group(held(70, by_sink=True)), Kind.BATCH_IN_DOUBT),
        (DONE | grouped(40, after=held(75)), Kind.AGREED),
        (DONE | in_group({TopicPartition("other", 0): held(1)[TP]}, held(60)), None),
        # Another group has the topic, or none is to have it.
        (OF_TWO_TOPICS | {"groups": (group(held(60)), OF_WEATHER)}, Kind.AGREED),
        (OF_TWO_TOPICS | grouped(60) | {"uncommitted": frozenset({"weather"})}, Kind.AGREED),
        # One sink was read after the other, and may have been where that was at one moment.
        (stored(ledger(60), ledger(50, key=SECOND, later={TP: 70})), None),
        (stored(ledger(60, later={TP: 80}), ledger(50, key=SECOND, later={TP: 61})), None),
        # Nothing was read of what the ledger lacks.
        (done(60, 50, began={OTHER: 50}) | stored(ledger(60)), None),
    ],
)  # fmt: skip  # one case a line
def test_nothing_is_wrong(given: Given, note: Kind | None) -> None:
    """What is usual for a query at work is a note at most."""
    found = judged(given)
    assert not found.to_act_on
    assert note is None or note in {one.kind for one in found.findings}


@pytest.mark.parametrize(("known", "cause"), [("A", "unclean leader election"), (None, "deleted")])
def test_beyond_the_end_of_the_log(known: str | None, cause: str) -> None:
    """With the topic's id it is known to be cut back; without, it may be recreated."""
    cut = logged(log(end=10)) | DONE | stored(ledger(head(60, topic_id=known)))
    found = only(judged(cut))
    assert found.kind is Kind.BEYOND_END
    assert found.ranges == {TP: (OffsetRange(10, 60),)}
    assert cause in found.cause
    assert 'exactly_once(..., name="NEW")' in found.fix
    assert 'out_of_range="latest"' in found.fix
    assert ("earliest" in found.fix) is (known is None)


def test_a_loss_is_accepted_by_a_command_and_then_no_longer_counts() -> None:
    """Where a ledger stands right before it; a query that goes on then finds it recorded."""
    deleted = logged(log(start=65)) | DONE
    accept = "eo-listener ledger accept LEDGER --sink delays --query flights"
    command = f"{accept} --partition flights-0 --gap 60..65 -b k:9092; "
    assert command in only(judged(deleted | stored(ledger(60)))).fix
    accepted = ledger(65, gaps={TP: (OffsetRange(60, 65),)})
    after = judged(deleted | stored(accepted))
    # The query is to start from the ledger: a batch of its old checkpoint begins before the gap.
    assert only(after).kind is Kind.BATCH_REFUSED
    assert "gap" in only(after).cause
    assert "starting_offsets(" in only(after).fix
    assert (after.count(Harm.LOST), after.count(Harm.ACCEPTED)) == (0, 5)
    two = stored(accepted, ledger(60, key=SECOND))
    assert kinds(judged(deleted | two)) == {Kind.BATCH_REFUSED, Kind.RETENTION}


@pytest.mark.parametrize(
    ("given", "of", "lost", "parts"),
    [
        # A restored store, of which Kafka no longer has all; partitions that it lacks.
        (logged(log(start=45)) | DONE | stored(ledger(40)), {Kind.LEDGER_BEHIND}, 20,
         ["20 records", "up to 5"]),
        (done(60, 50) | stored(ledger(60)), {Kind.LEDGER_LACKS}, 50, []),
        # One offset that two sinks lack counts once; one that a sink has is lost for the other.
        (DONE | stored(ledger(40), ledger(50, key=SECOND)), {Kind.LEDGER_BEHIND}, 20, []),
        (logged(log(start=65)) | done(60, ahead=[70]) | stored(APPLIED, ledger(60, key=SECOND)),
         {Kind.RETENTION}, 5, []),
        # Nothing is lost where the ledger is ahead: the checkpoint is an older copy.
        (DONE | stored(ledger(90)), {Kind.BATCH_REFUSED}, 0, ["older copy"]),
        # A group that a tool moved beyond the log hides nothing of the ledger.
        (logged(log(end=100)) | DONE | grouped(999) | stored(ledger(40)),
         {Kind.GROUP_AHEAD, Kind.LEDGER_BEHIND}, 20, []),
        # Deleted before the checkpoint has read it; past a group alone the query loses nothing.
        (ALL_FOUR | logged(log(start=80), log(start=10)), {Kind.RETENTION}, 20,
         ["failOnDataLoss=false"]),
        (logged(log(start=30)) | DONE | grouped(20), {Kind.RETENTION, Kind.GROUP_BEHIND}, 0,
         [SEED]),
    ],
)  # fmt: skip  # one case a line
def test_what_is_lost_is_counted(given: Given, of: set[Kind], lost: int, parts: list[str]) -> None:
    """Each offset once, and the verdict begins with it."""
    found = judged(given)
    assert (kinds(found), found.count(Harm.LOST)) == (of, lost)
    assert f"{lost} records " in found.verdict if lost else "nothing " in found.verdict
    text = " ".join(one.what + one.cause + one.fix for one in found.to_act_on)
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize(
    ("more", "fix"),
    [
        (stored(ledger(60)), 'starting_offsets(ledger=sink, query="flights"'),
        (grouped(60), 'starting_offsets(group="g", missing="fail", bootstrap_servers="k:9092")'),
        ({}, "check the path"),
    ],
)
def test_a_deleted_checkpoint(more: Given, fix: str) -> None:
    """The way on is the ledger, else the group."""
    gone = {"checkpoint": CheckpointPositions(label="/c", exists=False)}
    found = only(judged(gone | more))
    assert found.kind is Kind.CHECKPOINT_MISSING
    assert fix in found.fix


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "batch 5 is planned"),
        (stored(ledger(60)), "no sink has applied"),
        (stored(APPLIED), "every sink has applied"),
        (stored(APPLIED, ledger(60, key=SECOND)), "1 of 2 sinks"),
    ],
)
def test_a_batch_in_doubt(given: Given, told: str) -> None:
    """Normal for a query at work, or one that was killed: whether it is applied is said."""
    found = judged(done(60, ahead=[70]) | given)
    assert not found.to_act_on
    doubt = noted(found, Kind.BATCH_IN_DOUBT).what
    assert doubt.startswith("batch 5 ")
    assert doubt.rpartition("; ")[2].startswith(told)


def test_a_sink_in_postgresql_may_have_a_part_of_a_batch() -> None:
    """With atomicity="partition" the query finishes it; other sinks refuse what has two halves."""
    heads = ledger(heads={TP: head(70, start=60), OTHER: head(50)})
    given = done(60, 50, ahead=[70, 60])
    assert only(judged(given | stored(heads))).kind is Kind.BATCH_REFUSED
    found = judged(given | stored(heads, address="postgresql://h/d"))
    assert not found.to_act_on
    assert any("part" in one.what for one in found.findings)


def test_a_partition_without_new_records_is_judged_too() -> None:
    """Its next offsets would be refused: a new checkpoint at the latest offset has skipped some."""
    given = done(60, 50, ahead=[60, 55]) | stored(ledger(40, head(50, query="other")))
    assert Kind.LEDGER_BEHIND in kinds(judged(given))
    first = done(committed=None, planned=0, ahead=[20, 55], began={TP: 20, OTHER: 50})
    found = only(judged(first | stored(ledger(10, 50))))
    assert (found.kind, found.ranges) == (Kind.BATCH_REFUSED, {TP: (OffsetRange(10, 20),)})


def test_a_group_that_lacks_a_whole_topic_is_not_called_fine() -> None:
    """And it is given nothing of a checkpoint that cannot be read."""
    found = judged(OF_TWO_TOPICS | grouped(60))
    assert not [one for one in found.findings if one.kind is Kind.AGREED and "group" in one.about]
    damaged = {"checkpoint": replace(TWO_TOPICS, damaged=("offsets/4 is cut off",))}
    assert "seed" not in noted(judged(damaged | grouped(60)), Kind.GROUP_LACKS).fix


def test_a_group_ahead_of_the_ledger_alone() -> None:
    """Without a checkpoint the ledgers say what is done; it is to be named for a command."""
    given = Positions(**grouped(90), **stored(ledger(60)))
    found = only(outcome(judge_positions(given, Advice(cluster=ClusterCommands(servers="k:9092")))))
    assert (found.kind, found.ranges) == (Kind.GROUP_AHEAD, {TP: (OffsetRange(60, 90),)})
    assert "checkpoint" in found.fix
    assert "seed" not in found.fix


BACK = TableRollback("version 7 restored the table", "RESTORE TABLE t TO VERSION AS OF 6")
REPLACED = BACK._replace(fix="")


@pytest.mark.parametrize(
    ("heads", "back", "kind"),
    [
        ([60], BACK, Kind.LEDGER_BEHIND),
        ([], BACK, Kind.LEDGER_LACKS),
        ([], REPLACED, Kind.LEDGER_LACKS),  # no command undoes it
    ],
)
def test_a_table_that_was_taken_back(heads: list[int], back: TableRollback, kind: Kind) -> None:
    """What was done and the command that undoes it come first, then the way to begin again."""
    found = only(judged(done(90) | stored(ledger(*heads, rollback=back))))
    assert (found.kind, found.cause) == (kind, back.cause)
    assert found.fix.startswith(f"{back.fix}; or, if that was intended, " if back.fix else "start")
    assert "new checkpointLocation" in found.fix
    assert found.ranges == {TP: (OffsetRange(heads[0] if heads else 0, 90),)}


def test_a_table_that_was_taken_back_where_nothing_is_behind() -> None:
    """Without a checkpoint it is a warning; where one goes on from there, it was meant."""
    taken = stored(ledger(60, rollback=BACK))
    alone = judged(taken)
    assert "nothing lost" not in alone.verdict
    found = only(alone)
    assert (found.kind, found.severity) == (Kind.LEDGER_TAKEN_BACK, Severity.WARNING)
    assert BACK.cause in found.what
    assert found.fix.startswith(BACK.fix)
    again = judged(DONE | taken)
    assert agrees(again)
    assert Kind.LEDGER_TAKEN_BACK in {one.kind for one in again.findings}


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
    under = stored(renamed={OLD_NAME: {}}, address=address) | {"query": "new"}
    command = f"ledger rename {address} --sink delays --query old --to-query new{more}; "
    assert f"eo-listener {command}" in only(judged(DONE | under)).fix
    lost = logged(log(start=65)) | DONE | stored(ledger(60), address=address)
    assert f"--gap 60..65{asks}{more}" in only(judged(lost)).fix


def test_what_the_history_records() -> None:
    """Missing offsets are lost, repeated ones doubled, accepted gaps are counted apart."""
    missing, repeated = {TP: (OffsetRange(10, 12),)}, {TP: (OffsetRange(20, 23),)}
    gaps = {TP: (OffsetRange(30, 34), OffsetRange(40, 41))}
    found = judged(stored(ledger(60, missing=missing, repeated=repeated, gaps=gaps)))
    harms = (Harm.LOST, Harm.DOUBLED, Harm.ACCEPTED)
    assert [found.count(harm) for harm in harms] == [2, 3, 5]
    assert [int(one) for one in found.verdict.split() if one.isdigit()] == [2, 3, 5, 2]


def test_batches_of_other_sources_are_compared_too() -> None:
    """As one partition of the ledger, which no log has."""
    batches = {TP: 60, BATCHES: 5}
    given = replace(checkpoint(60), counted=True, done=batches, ahead=batches)
    behind = ledger(heads={TP: head(60), BATCHES: head(4, topic_id="plan")})
    found = only(judged(logged(log()) | {"checkpoint": given} | stored(behind)))
    assert found.ranges == {BATCHES: (OffsetRange(4, 5),)}


def test_what_could_not_be_read_makes_it_incomplete() -> None:
    """The verdict names it, and does not say that there is nothing to do."""
    error = KafkaError("reading failed", code="_TRANSPORT", cause="c", fix="f")
    found = outcome([not_read("cluster k:9092", error)])
    assert not found.complete
    assert "INCOMPLETE: cluster k:9092" in found.verdict
    assert "nothing lost" not in found.verdict
    assert "act on" not in found.verdict
    bare = not_read("sqlite s.db", SinkError("it is locked"))
    assert bare.fix
    both = outcome([*judged(DONE | grouped(40)).findings, bare])
    assert "to act on: 1, INCOMPLETE: sqlite s.db" in both.verdict


def test_rows_are_counted_by_kind() -> None:
    """A finding for each kind, however many ranges there are; documents stay bounded."""
    starts = [(AuditFindingKind.MISSING, 2 * number) for number in range(SHOWN + 7)]
    starts += [(AuditFindingKind.DUPLICATE, 1), (AuditFindingKind.MARKER, 3)]
    rows = [
        AuditFinding(kind=kind, partition=TP, range=OffsetRange(start, start + 1))
        for kind, start in starts
    ]
    found = outcome(judge_rows(ledger(60), "delays", rows, ADVICE, 9))
    assert [one.kind for one in found.findings] == [
        *(Kind.ROWS_EXPLAINED, Kind.ROWS_MISSING, Kind.ROWS_DOUBLED)
    ]
    assert (found.count(Harm.LOST), found.count(Harm.DOUBLED)) == (SHOWN + 7, 1)
    assert "1,007 records" in found.verdict
    document = found.findings[1].document()
    assert document["offsets"] == SHOWN + 7
    assert len(document["ranges"]) == SHOWN  # type: ignore[arg-type]  # a list


_ADDRESSES = ("sqlite:a b.db", "postgresql://me@h/db", "kafka:l", "kafka://h:9092/l", "delta:/d")


def test_commands_quote_and_name_what_they_need() -> None:
    """Names with blanks are one word, and secrets are never printed."""
    cluster = ClusterCommands(servers="k:9092", client=True, storage=True)
    asked = Advice(cluster=cluster, checkpoint="/with blank")
    assert asked.commit_checkpoint("my group", rewind=False) == (
        "eo-listener group seed -b k:9092 --from-checkpoint '/with blank' 'my group' "
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
        asked.cluster.show_transactions("--group", "-g"),
        asked.cluster.typed(["preflight"], ["-t", "-t"]),
        *(asked.accept_gap(at, odd, TP, OffsetRange(1, 2)) for at in _ADDRESSES),
        *(asked.rename_ledger(at, key, odd) for at in _ADDRESSES),
    ):
        require_typable(command)
    named = LedgerPositions(store="s", key=LedgerKey("s", 'C:\\new "x"'), heads={})
    assert r'query="C:\\new \"x\""' in asked.begin_from_ledger(named)


EMPTY = {"groups": (group({}),)}
FIRST = done(committed=None, planned=0, ahead=[10])
FOREIGN = stored(ledger(head(60, query="other")))
EARLIER = grouped(60, after=held(60, query="deadbeef-0"))
BY_BOTH = {"groups": (group(held(70, by_sink=True), held(70)),)}
SLOW = ledger(20, key=LedgerKey("delays", "slow"))
LEFT = ledger(40, key=LedgerKey("old", "flights"))
GONE = {"checkpoint": CheckpointPositions(label="/c", exists=False)}
DAMAGED = {"damaged": ("offsets/4 is cut off",)}
REPLACED_TARGET = stored(ledger(60, targets=("out",), replaced=("out",)))


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        # The sink commits with its batch, and later the listener the same.
        (done(60, ahead=[70]) | BY_BOTH, set()),
        # Two queries with topics of their own commit to one group.
        (DONE | in_group({**held(60), WEATHER: held(9, query="deadbeef-0")[TP]}), set()),
        # Heads are never deleted, and may be of a topic that was deleted on purpose.
        (logged(log()) | DONE | stored(ledger(heads={TP: head(60), WEATHER: head(50)})), set()),
        # Without a checkpoint it is not known of which query the group is.
        (grouped(60) | stored(ledger(60), SLOW), set()),
        # A query that began from a ledger: an empty batch moves no head.
        (done(60, began={TP: 60}) | FOREIGN, set()),
        # Of a first batch nothing is committed or applied yet.
        (FIRST | EMPTY | stored(), {Kind.GROUP_EMPTY, Kind.LEDGER_EMPTY}),
        # With assign: a partition that was there when the query began with a higher one.
        (logged(log(start=9), log()) | {"checkpoint": OF_SECOND}, {Kind.NEW_PARTITIONS}),
        # A sink has the batch in doubt, and Kafka has deleted its records since.
        (logged(log(start=65)) | done(60, ahead=[70]) | stored(APPLIED), set()),
        # Of a sink without transactions: the batch that is begun is the planned one.
        (done(60, ahead=[70]) | stored(ledger(60, unfinished_batch=5)), set()),
    ],
)
def test_what_is_healthy_is_not_accused(given: Given, notes: set[Kind]) -> None:
    """Nothing is to be acted on where all may be as it should be."""
    found = judged(given)
    assert not found.to_act_on
    assert notes <= {one.kind for one in found.findings}


@pytest.mark.parametrize(
    "more",
    [
        # A start from the ledger, which is ahead of the group since a crash.
        stored(ledger(head(60, query="other"))),
        # A topic that the query commits to no group.
        {"uncommitted": frozenset({TP.topic})},
        # What Kafka has deleted cannot be read again.
        logged(log(start=60)),
        # It was moved back from beyond the query's beginning, by a command.
        in_group(rewound(70)),
    ],
)
def test_what_is_in_a_sink_was_read(more: Given) -> None:
    """A group below the query's beginning proves nothing then."""
    given = done(60, committed=None, planned=0, ahead=[70], began={TP: 60}) | in_group(OLDER)
    assert Kind.NEVER_READ in kinds(judged(given))
    assert Kind.NEVER_READ not in kinds(judged(given | more))


@pytest.mark.parametrize(
    ("given", "kind", "part", "absent"),
    [
        # The sink has what the group says: it is the checkpoint that is an older copy.
        (done(10) | grouped(60) | stored(ledger(60)), Kind.BATCH_REFUSED, "", "?"),
        # A new checkpoint begins at the latest records, unless it is told where.
        (DONE | stored(other_keys=(KEY,)), Kind.LEDGER_EMPTY, '"startingOffsets", "earliest"', "?"),
        (logged(log(end=10)) | DONE, Kind.BEYOND_END, "cut back", "?"),
        # The ledger of a sink that is no longer written to stays; the other one is named.
        (DONE | stored(ledger(60), LEFT), Kind.LEDGER_BEHIND, "--sink", "?"),
        # It may be that nothing has come since a new checkpoint: then nobody else commits. A
        # rewind that nothing asks for could hide what else is wrong.
        (DONE | EARLIER, Kind.GROUP_FOREIGN, "new checkpoint", "rewind"),
        # No query has committed to it: a command would take it from its owner.
        (DONE | in_group({TP: Position(offset=95, metadata="")}), Kind.GROUP_FOREIGN,
         "check that -g", "eo-listener"),
        # Its newest files cannot be used, so nothing is known to be ahead of it.
        (done(10, **DAMAGED) | grouped(60), Kind.CHECKPOINT_DAMAGED, "", "rewind"),
        # Kafka deletes the offsets with the topic, and those of the checkpoint are of the old one.
        (logged(log(topic_id="B", end=999)) | DONE | EMPTY | stored(ledger(60)),
         Kind.TOPIC_RECREATED, "", "seed"),
        # Nothing of the old topic is in the new one.
        (DONE | REPLACED_TARGET, Kind.TARGET_RECREATED, 'KafkaSink(..., name="NEW")', "?"),
        # A batch that is committed should be finished.
        (done(60, ahead=[70]) | stored(ledger(60, unfinished_batch=4)), Kind.BATCH_BEGUN, "", "?"),
        # The batch is refused, but of an accepted gap within it no second driver is accused.
        (done(60, ahead=[90]) | stored(ledger(70, gaps={TP: (OffsetRange(60, 70),)})),
         Kind.BATCH_REFUSED, "gap", "has moved it"),
        (done(60, ahead=[90]) | stored(ledger(70)), Kind.BATCH_REFUSED, "has moved it", "gap"),
    ],
)  # fmt: skip  # one case a line
def test_the_advice_fits_each_cause(given: Given, kind: Kind, part: str, absent: str) -> None:
    """Where two causes are possible, neither is concluded, and no advice harms in either."""
    every = judged(given)
    found = only(every)
    assert found.kind is kind
    assert part in found.cause + found.fix
    assert not [one for one in every.findings if absent in one.cause + one.fix]


def test_a_damaged_checkpoint_is_no_first_batch() -> None:
    """What was committed is then not known."""
    found = judged(done(committed=None, planned=None, **DAMAGED) | EMPTY | stored())
    assert {Kind.GROUP_EMPTY, Kind.LEDGER_EMPTY} < kinds(found)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        # What this query has done is not in it, though the offsets agree.
        (done(60, began={TP: 0}) | FOREIGN, Kind.LEDGER_FOREIGN),
        (logged() | DONE, Kind.TOPIC_GONE),
        (logged(log(end=10)) | DONE, Kind.BEYOND_END),
        (logged(log(topic_id="B")) | stored(ledger(60)), Kind.TOPIC_RECREATED),
        (DONE | REPLACED_TARGET, Kind.TARGET_RECREATED),
        # It may be the second start of a query whose ledger is there, and could not be told.
        (FIRST | stored(other_keys=(KEY,)), None),
    ],
)
def test_where_offsets_mean_nothing_nobody_says_nothing_is_lost(
    given: Given, kind: Kind | None
) -> None:
    """A topic that is gone, cut back or recreated, and a ledger that says nothing of the query."""
    found = judged(given)
    assert kinds(found) == ({kind} if kind else set())
    assert "nothing lost" not in found.verdict
    if kind is None:
        assert any("'flights'" in one.what for one in found.findings)


def of_rows(kind: AuditFindingKind) -> AuditFinding:
    return AuditFinding(kind=kind, partition=TP, range=OffsetRange(0, 7))


def test_rows_that_cannot_be_proved_are_counted_in_the_verdict() -> None:
    """The table does not have them, and Kafka no longer has them either."""
    gone = of_rows(AuditFindingKind.RETENTION)
    found = outcome(judge_rows(ledger(60), "delays", [gone], ADVICE, 9))
    assert "nothing lost" not in found.verdict
    assert "7 offsets" in found.verdict
    assert found.document()["unproved"] == 7
    assert Kind.AGREED not in {one.kind for one in found.findings}


def test_rows_of_a_recreated_topic_are_not_to_be_deleted() -> None:
    """They have the offsets of the new topic's rows, and are other records."""
    twice = of_rows(AuditFindingKind.DUPLICATE)
    found = only(outcome(judge_rows(ledger(60), "delays", [twice], ADVICE, 9)))
    assert "recreated" in found.cause
    assert "recreated" in found.fix.partition("delete")[0]


def test_a_new_partition_is_not_taken_for_a_held_one() -> None:
    """Only what nothing holds is new."""
    found = judged(logged(log(), log()) | grouped(60, 50) | DONE)
    new = [one.what for one in found.findings if one.kind is Kind.NEW_PARTITIONS]
    assert not any(str(OTHER) in what for what in new)


def test_a_partition_only_the_group_holds_is_looked_at() -> None:
    """Where nothing else has it, the group's own offset counts."""
    alone = group({TopicPartition("x", 0): Position(offset=50, metadata="")})
    assert Kind.TOPIC_GONE in kinds(judged(logged(log()) | {"groups": (alone,)}))


@pytest.mark.parametrize(("held_there", "lost"), [(OLDER, 20), (UNMARKED, 0)])
def test_a_group_that_may_have_been_moved_back_proves_no_loss(held_there: Held, lost: int) -> None:
    """Only the commit of another query shows which records came before this query's beginning."""
    found = judged(done(70, began={TP: 60}) | in_group(held_there))
    assert Kind.NEVER_READ in kinds(found)
    assert (found.count(Harm.LOST), found.count(Harm.UNPROVED)) == (lost, 20 - lost)


def test_a_group_that_was_moved_back_is_behind() -> None:
    """The cause names the command, and not a listener that fails."""
    found = only(judged(DONE | in_group(rewound(70))))
    assert found.kind is Kind.GROUP_BEHIND
    assert "eo-listener group rewind" in found.cause


@pytest.mark.parametrize(
    ("rows", "lost", "words"),
    [
        (None, 20, "--rows shows them"),
        ((), 20, "starting_offsets(ledger=sink"),
        # Compaction and markers leave offsets without a row.
        ((OffsetRange(45, 60),), 0, "on_gap"),
        # A single row of another program hides no loss.
        ((OffsetRange(45, 46),), 20, "starting_offsets(ledger=sink"),
    ],
)
def test_a_ledger_that_is_behind_its_rows_lacks_nothing(
    rows: Intervals | None, lost: int, words: str
) -> None:
    """A start from such a ledger would write the rows twice."""
    unclaimed = None if rows is None else {TP: rows}
    found = judged(DONE | stored(replace(ledger(40), unclaimed=unclaimed)))
    behind = next(each for each in found.findings if each.kind is Kind.LEDGER_BEHIND)
    assert found.count(Harm.LOST) == lost
    assert words in behind.fix


@pytest.mark.parametrize(
    ("given", "kind", "accept"),
    [
        (DONE | stored(ledger(40, targets=("out",))), Kind.LEDGER_BEHIND, "on_gap"),
        (done(60, 50) | stored(ledger(60, targets=("out",))), Kind.LEDGER_LACKS, "on_first"),
    ],
)
def test_records_are_not_written_twice_for_a_ledger_that_was_restored_alone(
    given: Given, kind: Kind, accept: str
) -> None:
    """They may be in the target: that is to be looked at before anything is read once more."""
    found = only(judged(given))
    assert found.kind is kind
    first, _, second = found.fix.partition("; if none")
    assert "topic out" in first.partition(";")[0]
    assert f'{accept}="accept"' in first
    assert "starting_offsets(ledger=sink" in second


@pytest.mark.parametrize(
    ("given", "until"),
    [
        (GONE, 60),
        (DONE, 70),
        (logged(log(topic_id="B")) | DONE, 60),
        (logged(log(start=65)) | DONE, 60),
    ],
    ids=["no checkpoint", "ahead", "recreated", "retention"],
)
def test_a_start_from_the_ledger_is_not_advised_where_its_rows_are_gone(
    given: Given, until: int
) -> None:
    """Not by any other finding either: what it has as applied would never come again."""
    found = judged(given | stored(ledger(until, targets=("out",), replaced=("out",))))
    assert len(found.to_act_on) == 2
    for one in found.to_act_on:
        before, fits, after = one.fix.partition("that matches the ledger")
        assert "starting_offsets(" not in before
        assert not fits or "starting_offsets(" not in after or 'name="NEW"' in before


def test_a_ledger_of_the_same_query_id_under_another_name_is_named() -> None:
    """A copy of the checkpoint has its id; which of the two is meant is not guessed in silence."""
    copies: dict[LedgerKey, Given] = {LedgerKey("delays", "copy"): {}, LedgerKey("other", "x"): {}}
    given = DONE | stored(ledger(60), renamed=copies)
    found = judged(given)
    assert not found.to_act_on
    assert "'copy'" in noted(found, Kind.LEDGER_RENAMED).what
    named = judged(given | {"query": "flights"})
    assert Kind.LEDGER_RENAMED not in {one.kind for one in named.findings}


ONE_TOPIC = "eo-listener group seed -b k:9092 --from-checkpoint /c -t flights g"


@pytest.mark.parametrize(
    "given",
    [
        # Another group has its other topic, or, as was said by --uncommitted, none is to have it.
        {"groups": (group({}), OF_WEATHER)},
        EMPTY | {"uncommitted": frozenset({"weather"})},
        grouped(40) | {"uncommitted": frozenset({"weather"})},
    ],
)
def test_a_group_is_given_its_own_topics_alone(given: Given) -> None:
    """It would hold offsets of the others that nobody moves on."""
    assert only(judged(OF_TWO_TOPICS | given)).fix == ONE_TOPIC


def test_a_group_that_retention_has_passed_is_given_its_own_topics_alone() -> None:
    """And nothing of a checkpoint that cannot be read."""
    logs = replace(logged()["source"], logs={TP: log(start=30), WEATHER: log()})
    given = {"source": logs, "groups": (group(held(20)), OF_WEATHER)}

    def fix(checkpoint: CheckpointPositions) -> str:
        return noted(judged(given | {"checkpoint": checkpoint}), Kind.RETENTION).fix

    assert fix(TWO_TOPICS) == ONE_TOPIC
    assert "eo-listener" not in fix(replace(TWO_TOPICS, damaged=DAMAGED["damaged"]))


def test_nothing_is_called_lost_by_a_checkpoint_whose_newest_batch_cannot_be_read() -> None:
    """The query may have read what Kafka has deleted since: the older batch does not say."""
    found = judged(logged(log(start=70)) | done(60, **DAMAGED) | grouped(90))
    assert kinds(found) == {Kind.CHECKPOINT_DAMAGED, Kind.RETENTION}
    assert (found.count(Harm.LOST), found.count(Harm.UNPROVED)) == (0, 10)
    assert "nothing lost" not in found.verdict
    assert "10 offsets" in found.verdict


def test_a_batch_whose_file_is_damaged_is_no_second_driver() -> None:
    """The ledger has it; a batch that is newer, or another query's, is accused as ever."""
    damaged = done(60, planned=5, damaged=("offsets/5 is cut off",))
    applied = replace(head(90), batch_id=5)
    found = judged(damaged | stored(ledger(applied)))
    assert only(found).kind is Kind.CHECKPOINT_DAMAGED
    doubt = noted(found, Kind.BATCH_IN_DOUBT).what
    assert "batch 5" in doubt
    assert not [word for word in ("repeat", "skip") if word in doubt]


@pytest.mark.parametrize("at", [40, 90])
def test_a_query_does_not_begin_where_another_one_stands(at: int) -> None:
    """What is before that would never be in its sink: whose ledger it is must be looked at."""
    other = DONE | stored(ledger(head(at, query="other")))
    assert 'check that "flights" is' in only(judged(other)).fix.partition("if it is, ")[0]
    assert "check that" not in only(judged(other | {"query": "flights"})).fix


@pytest.mark.parametrize(
    ("given", "begins"),
    [
        (done(60, 60) | stored(ledger(head(40, query="other"), 40)), "stop the"),
        (GONE | stored(ledger(60, key=LedgerKey("a", "airports")), ledger(60)), "name the query"),
    ],
)
def test_a_ledger_of_one_query_and_two_of_several(given: Given, begins: str) -> None:
    """One that is in part the query's own is; of two, somebody has to say which is meant."""
    assert only(judged(given)).fix.startswith(begins)


def test_of_two_sinks_the_one_that_was_restored_gets_a_query_of_its_own() -> None:
    """A start from its ledger goes back to what the other one has, which refuses that."""

    def two(first: int) -> Any:
        return judged(DONE | stored(ledger(first), ledger(40, store="SQLite file /y.db")))

    about = "sink delays, query flights, in "
    found = only(two(60))
    assert found.about == f"{about}SQLite file /y.db"
    assert found.fix.startswith("give this sink")
    assert f"{about}{FILE}: start" in found.fix
    assert '.option("startingOffsets"' in found.fix
    for one in two(40).to_act_on:
        assert one.fix.startswith("stop the query; start it")
