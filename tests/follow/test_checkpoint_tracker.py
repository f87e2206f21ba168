"""What follows from each look at a checkpoint, decided without a thread, a disk or a Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.errors import StorageError
from eo_listener.events import GuardViolation, ViolationKind
from eo_listener.follow import FollowedCheckpoint, Notice, NoticeKind
from eo_listener.follow.checkpoint_tracker import CheckpointTracker, Reading, Step, plan
from eo_listener.follow.follower import read_once
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.errors import FileFinding, FileFindingKind
from eo_listener.spark.checkpoint.log_files import BatchOffsets, SourceOffsets
from tests.spark.checkpoint import writers

ID, OTHER = "95fa6369-814d-497b-9a53-78b7f7efdd1a", "11111111-814d-497b-9a53-78b7f7efdd1a"
CLUSTER = Cluster.from_properties({"bootstrap.servers": "h:1"})
TARGET = FollowedCheckpoint(location="/c", cluster=CLUSTER, groups={"*": "g"})
TORN = FileFinding(file="offsets/8", kind=FileFindingKind.EMPTY)


def batch(number: int, *sources: Mapping[int, int], topic: str = "t") -> BatchOffsets:
    return BatchOffsets(
        batch=number,
        version=1,
        metadata="{}",
        sources=tuple(
            writers.source_offsets(str(index), Offsets.of({topic: ends}))
            for index, ends in enumerate(sources)
        ),
    )


def at(number: int, *sources: Mapping[int, int], query: str = ID, topic: str = "t") -> Reading:
    return Reading(query_id=query, durable=batch(number, *sources, topic=topic))


def tracker(
    target: FollowedCheckpoint = TARGET, guard: GuardMode = GuardMode.WITHHOLD
) -> CheckpointTracker:
    return CheckpointTracker(target, "/c", guard=guard, interval=5.0, recommit_interval=3600.0)


def begun(reading: Reading) -> CheckpointTracker:
    """A tracker that has seen this at second 0."""
    made = tracker()
    made.on_reading(reading, 0.0)
    return made


def committed(step: Step) -> dict[str, dict[int, int]]:
    return {
        commit.group: {tp.partition: one.offset for tp, one in commit.positions.items()}
        for commit in step.commits
    }


def kinds(step: Step) -> list[NoticeKind]:
    return [event.kind for event in step.events if isinstance(event, Notice)]


def test_a_target_shows_no_secret_of_its_storage() -> None:
    """Nor does whatever quotes it."""
    assert "hunter2" not in repr(replace(TARGET, storage={"password": "hunter2"}))


def test_a_snapshot_at_a_folder_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    """Nothing there, a checkpoint without its id, and one with it."""
    assert read_once(Checkpoint(str(tmp_path))).absent
    (tmp_path / "offsets").mkdir()
    damaged = read_once(Checkpoint(str(tmp_path)))
    assert [finding.kind for finding in damaged.findings] == [FileFindingKind.MISSING]
    assert not damaged.absent
    (tmp_path / "metadata").write_text(f'{{"id":"{ID}"}}')
    assert read_once(Checkpoint(str(tmp_path))) == Reading(query_id=ID)


def test_the_metadata_says_query_batch_and_sidecar() -> None:
    """Whoever reads the group sees which query's checkpoint it follows."""
    one = tracker(replace(TARGET, name="flights"))
    (commit,) = one.on_reading(at(41, {0: 5}), 0.0).commits
    metadata = CommitMetadata.parse(commit.positions[TopicPartition("t", 0)].metadata)
    assert metadata == CommitMetadata(
        name="flights", query_id="95fa6369", run_id="follow", batch_id=41
    )


def test_the_lesser_of_two_sources_counts() -> None:
    """Where two sources of a query read one partition, the group waits for the slower."""
    assert committed(tracker().on_reading(at(3, {0: 5, 1: 7}, {0: 4, 1: 9}), 0.0)) == {
        "g": {0: 4, 1: 7}
    }


def test_topics_have_groups_of_their_own() -> None:
    """A topic goes to its group, the rest to the rest's; one without a group is told once."""
    target = replace(TARGET, groups={"a": "ga", "*": "rest"})
    assert committed(tracker(target).on_reading(at(1, {0: 5}, topic="a"), 0.0)) == {"ga": {0: 5}}
    assert committed(tracker(target).on_reading(at(1, {0: 5}, topic="b"), 0.0)) == {"rest": {0: 5}}
    alone = tracker(replace(TARGET, groups={"a": "ga"}))
    step = alone.on_reading(at(1, {0: 5}, topic="b"), 0.0)
    assert step.commits == ()
    assert kinds(step) == [NoticeKind.FOLLOWING, NoticeKind.NO_GROUP]
    assert kinds(alone.on_reading(at(2, {0: 6}, topic="b"), 1.0)) == []


def test_topics_without_a_group_are_reported_in_their_order() -> None:
    """Whichever source has them, so that the same is said each time."""
    target = replace(TARGET, groups={"a": "ga"})
    sources = {str(n): Offsets.of({f"t{n}": {0: 1}}) for n in (7, 3, 5, 1, 6, 2, 4)}
    sources["8"] = Offsets.of({"a": {0: 1}})
    commits, without_group = plan(target, ID, 1, sources)
    assert without_group == tuple(f"t{n}" for n in range(1, 8))
    assert [commit.group for commit in commits] == ["ga"]


def looked(number: int, end: int, query: str = ID, torn: FileFinding | None = None) -> Reading:
    """One reading of a checkpoint whose newest readable batch ends there."""
    return replace(at(number, {0: end}, query=query), findings=(torn,) if torn else ())


BEFORE = Reading(query_id=ID)
AT_8 = (looked(8, 60), {0: 60}, [NoticeKind.FOLLOWING])
AT_8_TORN = looked(8, 60, torn=TORN)
NO_ID = Reading(findings=(FileFinding(file="metadata", kind=FileFindingKind.EMPTY),))
DAMAGED = Reading(query_id=ID, findings=(TORN,))
Look = tuple[Reading, Mapping[int, int], list[NoticeKind]]  # what is then committed, and reported


@pytest.mark.parametrize("looks", [
    # The whole map of a batch when it is new, and nothing while it stays the same.
    [(at(3, {0: 5, 1: 7}), {0: 5, 1: 7}, [NoticeKind.FOLLOWING]), (at(3, {0: 5, 1: 7}), {}, []),
     (at(7, {0: 9, 1: 7}), {0: 9, 1: 7}, [])],
    # A query that has not finished a batch is told once, and committed when it has.
    [(BEFORE, {}, [NoticeKind.NOTHING_DURABLE]), (BEFORE, {}, []),
     (looked(0, 5), {0: 5}, [NoticeKind.FOLLOWING])],
    # Nothing is durable, and something cannot be read: that is said, and not that it is new.
    [(DAMAGED, {}, []), (DAMAGED, {}, [NoticeKind.UNREADABLE]),
     (looked(0, 5), {0: 5}, [NoticeKind.FOLLOWING])],
    # An id that cannot be read makes no other query: nothing is new when it can be again.
    [AT_8, (NO_ID, {}, []), (NO_ID, {}, [NoticeKind.UNREADABLE]), (NO_ID, {}, []),
     (looked(8, 60), {}, [])],
    # A file may be read while it is being written: the second reading reports it, once.
    [AT_8, (AT_8_TORN, {}, []), (AT_8_TORN, {}, [NoticeKind.UNREADABLE]),
     (AT_8_TORN, {}, []), (looked(9, 70), {0: 70}, [])],
    # Twice and nothing torn: somebody took it back, or planned 8 again; the committer decides.
    [AT_8, (looked(5, 30), {}, []), (looked(5, 30), {0: 30}, [NoticeKind.REWOUND])],
    [AT_8, (looked(8, 70), {}, []), (looked(8, 70), {0: 70}, [NoticeKind.REWOUND]),
     (BEFORE, {}, []), (BEFORE, {}, [NoticeKind.REWOUND]), (BEFORE, {}, [])],
    # Two readings in a row must show the same; a good one between them starts over.
    [AT_8, (looked(5, 30), {}, []), (looked(4, 20), {}, []), (looked(9, 70), {0: 70}, []),
     (looked(4, 20), {}, []), (looked(4, 20), {0: 20}, [NoticeKind.REWOUND])],
])  # fmt: skip  # one look, or some, a line
def test_what_follows_from_looks(looks: Sequence[Look]) -> None:
    """A checkpoint that grows, is damaged, or is taken back: commits and notices, look by look."""
    one = tracker()
    for number, (reading, ends, told) in enumerate(looks):
        step = one.on_reading(reading, 5.0 * number)
        assert (committed(step).get("g", {}), kinds(step)) == (ends, told), number
        assert not step.released


def test_a_recommit_has_the_full_map() -> None:
    """Every `recommit_interval` seconds, and the newest batch is not taken back when it is torn."""
    one = tracker()
    assert not one.on_reading(at(8, {0: 5, 1: 7}), 100.0).recommit
    for now, reading in ((3699.0, at(8, {0: 5, 1: 7})), (3699.5, looked(7, 4, torn=TORN))):
        assert one.on_reading(reading, now).commits == ()
    beat = one.on_reading(looked(7, 4, torn=TORN), 3700.0)
    assert (beat.recommit, committed(beat)) == (True, {"g": {0: 5, 1: 7}})
    assert one.on_reading(looked(7, 4, torn=TORN), 3705.0).commits == ()


def test_a_last_reading_waits_for_no_other() -> None:
    """At the end one reading is enough: a torn file is reported, a step back is offered."""
    step = begun(looked(8, 60)).on_reading(looked(5, 30), 5.0, final=True)
    assert (kinds(step), committed(step)) == ([NoticeKind.REWOUND], {"g": {0: 30}})


def test_a_missing_checkpoint_is_waited_for_and_reported_once() -> None:
    """Absent, there, gone, there again: one notice each."""
    one = tracker()
    assert kinds(one.on_reading(Reading(), 0.0)) == [NoticeKind.ABSENT]
    assert kinds(one.on_reading(Reading(), 5.0)) == []
    there = kinds(one.on_reading(looked(0, 1), 10.0))
    assert there == [NoticeKind.RECOVERED, NoticeKind.FOLLOWING]
    first = one.on_reading(Reading(), 15.0)  # which may meet it in the middle of a change
    assert (first.released, first.events) == (None, ())
    gone = one.on_reading(Reading(), 20.0)
    assert kinds(gone) == [NoticeKind.GONE]
    assert (gone.released, gone.replaced) == (ID, False)
    assert kinds(one.on_reading(Reading(), 25.0)) == []
    back = one.on_reading(at(0, {0: 1}), 30.0)
    assert kinds(back) == [NoticeKind.RECOVERED]
    assert committed(back) == {"g": {0: 1}}  # it holds up the others of its group again


def test_another_query_in_the_same_place_is_reported() -> None:
    """It may go back, as far as is decided here, and is not held for what the one before did."""
    one = begun(looked(1, 50))
    one.on_reading(looked(2, 40), 5.0)
    assert one.on_reading(looked(3, 60), 10.0).commits == ()  # which the guard withholds
    step = one.on_reading(looked(0, 3, OTHER), 15.0)
    assert kinds(step) == [NoticeKind.REPLACED, NoticeKind.FOLLOWING]
    assert (step.released, step.replaced) == (ID, True)
    assert committed(step) == {"g": {0: 3}}
    assert committed(one.on_reading(looked(1, 4, OTHER), 20.0)) == {"g": {0: 4}}


@pytest.mark.parametrize(
    ("ends", "kind"), [({0: 40, 1: 9}, ViolationKind.BACKWARD), ({0: 60}, ViolationKind.VANISHED)]
)
def test_the_guard_withholds_a_source(ends: Mapping[int, int], kind: ViolationKind) -> None:
    """A source that does not continue is reported and withheld; other sources go on."""
    one = begun(at(1, {0: 50, 1: 9}, {5: 1}))
    step = one.on_reading(at(2, ends, {5: 2}), 5.0)
    (violation,) = (event for event in step.events if isinstance(event, GuardViolation))
    assert violation.withheld
    assert violation.query == ID  # it has no name
    assert violation.source == 0
    assert {one.kind for one in violation.violations} == {kind}
    assert committed(step) == {"g": {5: 2}}
    assert [sorted(tp.partition for tp in commit.positions) for commit in step.withheld] == [
        sorted(ends)
    ]
    later = one.on_reading(at(3, {0: 70, 1: 9}, {5: 3}), 10.0)
    assert committed(later) == {"g": {5: 3}}
    assert later.withheld == ()
    beat = one.on_reading(at(3, {0: 70, 1: 9}, {5: 3}), 4000.0)
    assert beat.recommit
    assert len(beat.withheld) == 1


def test_a_guard_that_warns_reports_and_commits() -> None:
    """With "warn" the violation is an event, and the offsets are committed."""
    one = tracker(guard=GuardMode.WARN)
    one.on_reading(at(1, {0: 50}), 0.0)
    step = one.on_reading(at(2, {0: 40}), 5.0)
    assert len(step.events) == 1
    assert committed(step) == {"g": {0: 40}}


def test_a_storage_out_of_reach_is_asked_less_and_less() -> None:
    """Told once, with growing pauses of at most a minute; told again when it is over."""
    one = tracker()
    words = (StorageError("s3://b/c cannot be read", cause=f"request {n}") for n in range(8))
    steps = [
        one.on_reading(Reading(unreachable=error), float(now)) for now, error in enumerate(words)
    ]
    assert [step.pause for step in steps] == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0, 60.0]
    assert [kinds(step) for step in steps] == [[NoticeKind.UNREACHABLE], *[[]] * 7]
    back = one.on_reading(at(1, {0: 5}), 9.0)
    assert kinds(back) == [NoticeKind.RECOVERED, NoticeKind.FOLLOWING]
    assert back.pause == 5.0
    again = one.on_reading(Reading(unreachable=StorageError("s3://b/c cannot be read")), 14.0)
    assert again.pause == 10.0


def test_a_query_of_another_kind_is_reported_once() -> None:
    """Nothing of Kafka in it; continuous processing is said where following begins."""
    other = replace(batch(1), sources=(SourceOffsets(id="0", text="5", offsets=None),))
    one = tracker()
    step = one.on_reading(Reading(query_id=ID, durable=other), 0.0)
    assert kinds(step) == [NoticeKind.FOLLOWING, NoticeKind.NO_KAFKA]
    later = one.on_reading(Reading(query_id=ID, durable=replace(other, batch=2)), 5.0)
    assert (later.commits, later.events) == ((), ())
    epochs = Reading(query_id=ID, durable=replace(batch(4, {0: 5}), metadata=""))
    (notice,) = tracker().on_reading(epochs, 0.0).events
    assert "continuous processing" in str(notice)


def test_a_source_that_gets_its_first_offset_has_no_past() -> None:
    """Spark writes no offset for a source without data; one that comes later is committed."""
    empty = SourceOffsets(id="1", text="-", offsets=None)

    def half(number: int, end: int) -> Reading:
        made = batch(number, {0: end})
        return Reading(query_id=ID, durable=replace(made, sources=(*made.sources, empty)))

    one = begun(half(1, 50))
    step = one.on_reading(at(2, {0: 60}, {5: 7}), 5.0)
    assert (step.events, committed(step)) == ((), {"g": {0: 60, 5: 7}})
    assert committed(one.on_reading(half(3, 70), 10.0)) == {"g": {0: 70}}
