"""What follows from each look at a checkpoint, decided without a thread, a disk or a Kafka."""

from __future__ import annotations

from collections.abc import Mapping
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


def test_each_new_batch_is_committed_once() -> None:
    """The whole map of a batch, when it is new; nothing while it stays the same."""
    one = tracker()
    first = one.on_reading(at(3, {0: 5, 1: 7}), 100.0)
    assert committed(first) == {"g": {0: 5, 1: 7}}
    assert kinds(first) == [NoticeKind.FOLLOWING]
    assert not first.recommit
    same = one.on_reading(at(3, {0: 5, 1: 7}), 105.0)
    assert (same.commits, same.events) == ((), ())
    assert committed(one.on_reading(at(7, {0: 9, 1: 7}), 110.0)) == {"g": {0: 9, 1: 7}}


def test_the_metadata_says_query_batch_and_sidecar() -> None:
    """Whoever reads the group sees which query's checkpoint it follows."""
    one = tracker(replace(TARGET, name="flights"))
    (commit,) = one.on_reading(at(41, {0: 5}), 0.0).commits
    metadata = CommitMetadata.parse(commit.positions[TopicPartition("t", 0)].metadata)
    assert metadata == CommitMetadata(
        name="flights", query_id="95fa6369", run_id="follow", batch_id=41
    )


def test_the_full_map_is_recommitted_with_each_recommit() -> None:
    """All of it, also when nothing has changed, every `recommit_interval` seconds."""
    one = tracker()
    one.on_reading(at(3, {0: 5, 1: 7}), 100.0)
    assert one.on_reading(at(3, {0: 5, 1: 7}), 3699.0).commits == ()
    beat = one.on_reading(at(3, {0: 5, 1: 7}), 3700.0)
    assert beat.recommit
    assert committed(beat) == {"g": {0: 5, 1: 7}}
    assert one.on_reading(at(3, {0: 5, 1: 7}), 3705.0).commits == ()


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


def test_a_checkpoint_whose_id_cannot_be_read_is_no_other_one() -> None:
    """It is the same as before once it can be read again, with nothing new to commit."""
    one = begun(at(3, {0: 5}))
    damaged = Reading(findings=(FileFinding(file="metadata", kind=FileFindingKind.EMPTY),))
    for now in (5.0, 10.0, 15.0):
        step = one.on_reading(damaged, now)
        assert NoticeKind.REPLACED not in kinds(step)
        assert not step.released
    assert one.on_reading(at(3, {0: 5}), 20.0).commits == ()


def test_a_missing_checkpoint_is_waited_for_and_reported_once() -> None:
    """Absent, there, gone, there again: one notice each."""
    one = tracker()
    assert kinds(one.on_reading(Reading(), 0.0)) == [NoticeKind.ABSENT]
    assert kinds(one.on_reading(Reading(), 5.0)) == []
    assert kinds(one.on_reading(at(0, {0: 1}), 10.0)) == [
        NoticeKind.RECOVERED,
        NoticeKind.FOLLOWING,
    ]
    first = one.on_reading(Reading(), 15.0)  # which may meet it in the middle of a change
    assert (first.released, first.events) == (False, ())
    gone = one.on_reading(Reading(), 20.0)
    assert kinds(gone) == [NoticeKind.GONE]
    assert gone.released
    assert kinds(one.on_reading(Reading(), 25.0)) == []
    assert kinds(one.on_reading(at(0, {0: 1}), 30.0)) == [NoticeKind.RECOVERED]


def test_another_query_in_the_same_place_is_reported() -> None:
    """Its offsets are committed as they are: whether a group may go back is not decided here."""
    one = begun(at(9, {0: 50}))
    step = one.on_reading(at(0, {0: 3}, query=OTHER), 5.0)
    assert kinds(step) == [NoticeKind.REPLACED, NoticeKind.FOLLOWING]
    assert step.released
    assert committed(step) == {"g": {0: 3}}


def test_a_torn_file_counts_when_it_stays_torn() -> None:
    """A file may be read while it is being written, so the second reading reports it, once."""
    one = begun(at(7, {0: 50}))
    torn = replace(at(7, {0: 50}), findings=(TORN,))
    assert one.on_reading(torn, 5.0).events == ()
    assert kinds(one.on_reading(torn, 10.0)) == [NoticeKind.UNREADABLE]
    assert one.on_reading(torn, 15.0).events == ()
    assert committed(one.on_reading(at(8, {0: 60}), 20.0)) == {"g": {0: 60}}


def test_a_torn_newest_batch_takes_nothing_back() -> None:
    """When only an older batch can be read, the group stays where it is, recommit included."""
    one = begun(at(8, {0: 60}))
    older = replace(at(7, {0: 50}), findings=(TORN,))
    for now in (5.0, 10.0, 15.0):
        assert one.on_reading(older, now).commits == ()
    assert committed(one.on_reading(older, 4000.0)) == {"g": {0: 60}}


@pytest.mark.parametrize(("number", "end"), [(5, 30), (8, 70)])  # 8 was planned again
def test_a_checkpoint_taken_back_is_reported_and_offered(number: int, end: int) -> None:
    """Twice and nothing torn: somebody rewound it; the committer decides."""
    one = begun(at(8, {0: 60}))
    assert one.on_reading(at(number, {0: end}), 5.0).commits == ()
    step = one.on_reading(at(number, {0: end}), 10.0)
    assert kinds(step) == [NoticeKind.REWOUND]
    assert committed(step) == {"g": {0: end}}
    emptied = Reading(query_id=ID)
    one.on_reading(emptied, 15.0)
    assert kinds(one.on_reading(emptied, 20.0)) == [NoticeKind.REWOUND]
    assert one.on_reading(emptied, 25.0).events == ()


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
    other = BatchOffsets(
        batch=1,
        version=1,
        metadata="{}",
        sources=(SourceOffsets(id="0", text="5", offsets=None),),
    )
    one = tracker()
    step = one.on_reading(Reading(query_id=ID, durable=other), 0.0)
    assert kinds(step) == [NoticeKind.FOLLOWING, NoticeKind.NO_KAFKA]
    later = one.on_reading(Reading(query_id=ID, durable=replace(other, batch=2)), 5.0)
    assert (later.commits, later.events) == ((), ())
    epochs = Reading(query_id=ID, durable=replace(batch(4, {0: 5}), metadata=""))
    (notice,) = tracker().on_reading(epochs, 0.0).events
    assert "continuous processing" in str(notice)


def test_before_the_first_batch() -> None:
    """A query that has not finished one is told once, and committed when it has."""
    one = tracker()
    planned = Reading(query_id=ID)
    assert kinds(one.on_reading(planned, 0.0)) == [NoticeKind.NOTHING_DURABLE]
    assert kinds(one.on_reading(planned, 5.0)) == []
    assert committed(one.on_reading(at(0, {0: 5}), 10.0)) == {"g": {0: 5}}


def test_a_source_that_gets_its_first_offset_has_no_past() -> None:
    """Spark writes no offset for a source without data; one that comes later is committed."""
    empty = SourceOffsets(id="1", text="-", offsets=None)
    one = tracker()
    first = batch(1, {0: 50})
    one.on_reading(
        Reading(query_id=ID, durable=replace(first, sources=(*first.sources, empty))), 0.0
    )
    step = one.on_reading(at(2, {0: 60}, {5: 7}), 5.0)
    assert step.events == ()
    assert committed(step) == {"g": {0: 60, 5: 7}}
    gone = batch(3, {0: 70})
    step = one.on_reading(
        Reading(query_id=ID, durable=replace(gone, sources=(*gone.sources, empty))), 10.0
    )
    assert committed(step) == {"g": {0: 70}}


def test_a_damaged_file_before_the_first_batch_is_reported_and_waited_for() -> None:
    """Nothing is durable, and something cannot be read: that is said, and not that it is new."""
    torn = Reading(query_id=ID, findings=(TORN,))
    one = begun(torn)
    step = one.on_reading(torn, 5.0)
    assert kinds(step) == [NoticeKind.UNREADABLE]
    assert (step.commits, step.pause) == ((), 5.0)
    assert committed(one.on_reading(at(0, {0: 5}), 10.0)) == {"g": {0: 5}}


def test_a_last_reading_waits_for_no_other() -> None:
    """At the end one reading is enough: a torn file is reported, a step back is offered."""
    one = begun(at(8, {0: 60}))
    step = one.on_reading(at(5, {0: 30}), 5.0, final=True)
    assert kinds(step) == [NoticeKind.REWOUND]
    assert committed(step) == {"g": {0: 30}}


def test_a_doubt_that_changes_is_a_new_doubt() -> None:
    """Two readings in a row must show the same; a good one between them starts over."""
    one = begun(at(8, {0: 60}))
    assert one.on_reading(at(5, {0: 30}), 5.0).commits == ()
    assert one.on_reading(at(4, {0: 20}), 10.0).commits == ()
    assert committed(one.on_reading(at(9, {0: 70}), 15.0)) == {"g": {0: 70}}
    assert one.on_reading(at(4, {0: 20}), 20.0).commits == ()
    assert committed(one.on_reading(at(4, {0: 20}), 25.0)) == {"g": {0: 20}}


def test_what_the_guard_withheld_is_free_with_another_query() -> None:
    """A query that was started anew is not held for what the one before did."""
    one = begun(at(1, {0: 50}))
    one.on_reading(at(2, {0: 40}), 5.0)
    assert one.on_reading(at(3, {0: 60}), 10.0).commits == ()
    one.on_reading(at(0, {0: 3}, query=OTHER), 15.0)
    assert committed(one.on_reading(at(1, {0: 4}, query=OTHER), 20.0)) == {"g": {0: 4}}
