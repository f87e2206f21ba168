"""What a batch was planned to read, from checkpoints that Spark 3.5, 4.0 and 4.2 wrote."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

import pytest

from eo_listener.errors import SettingsError
from eo_listener.model.planned_batch import BATCHES, PlannedBatch
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.spark.checkpoint.errors import CheckpointError, Unreadable
from eo_listener.spark.checkpoint.log_files import plan_id
from eo_listener.spark.checkpoint.planned_batches import CheckpointPlans
from tests.spark.checkpoint.recorded import VERSIONS, unpack

Ranges = dict[int, dict[TopicPartition, OffsetRange]]


def written(version: str, name: str, folder: Path, batch: int) -> Path:
    """A checkpoint as it is while `batch` is being written."""
    unpack(version, name, folder)
    for log, first in (("offsets", batch + 1), ("commits", batch)):
        for file in (folder / log).iterdir():
            if file.name.isdigit() and int(file.name) >= first:
                file.unlink()
    return folder


def ranges_of(plan: PlannedBatch) -> Ranges:
    return {index: dict(spans) for index, spans in plan.sources.items()}


def plan_of(version: str, name: str, folder: Path, batch: int) -> PlannedBatch:
    return CheckpointPlans(str(written(version, name, folder, batch)), "run").plan(None, batch)


def planned(version: str, name: str, folder: Path, batch: int) -> Ranges:
    plan = plan_of(version, name, folder, batch)
    assert plan.batch_id == batch
    assert (plan.run_id, plan.query, len(plan.query_id)) == ("run", None, 36)
    assert not plan.topic_ids
    return ranges_of(plan)


def spans(topic: str, *ends: int, start: int = 0) -> dict[TopicPartition, OffsetRange]:
    """Ranges of partitions 0, 1, ... that end at `ends`, each having begun at a half of it or 0."""
    return {
        TopicPartition(topic, number): OffsetRange(end // 2 if start else 0, end)
        for number, end in enumerate(ends)
    }


@pytest.mark.parametrize(
    ("version", "name"), [*((version, "join") for version in VERSIONS), ("4.2.0", "v2-join")]
)
def test_two_sources(version: str, name: str, tmp_path: Path) -> None:
    """Each has its own ranges, also where version 2 writes them in any order."""
    assert planned(version, name, tmp_path, 1) == {
        0: spans(f"{name}-left-{version}", 16, 14, 10, start=1),
        1: spans(f"{name}-right-{version}", 24, 20, 16, start=1),
    }


def test_a_source_with_a_name(tmp_path: Path) -> None:
    """From Spark 4.2 on its name stands where its number did."""
    assert planned("4.2.0", "v2-named", tmp_path, 0) == {0: spans("v2-named-4.2.0", 8, 7, 5)}


def test_two_sources_that_stand_alike(tmp_path: Path) -> None:
    """Two streams of one topic, read at one pace, are two sources, as their folders say."""
    ranges = planned("4.0.0", "plain", tmp_path / "one", 1)[0]
    folder = written("4.0.0", "plain", tmp_path / "two", 1)
    shutil.copytree(folder / "sources" / "0", folder / "sources" / "1")
    for offsets in (folder / "offsets" / "0", folder / "offsets" / "1"):
        text = offsets.read_text()
        offsets.with_name(f".{offsets.name}.crc").unlink()
        offsets.write_text(text + "\n" + text.splitlines()[-1])
    plan = CheckpointPlans(str(folder), "run").plan(None, 1)
    assert ranges_of(plan) == {0: ranges, 1: ranges}


def beside_a_stream_used_twice(folder: Path, place: int) -> Path:
    """Version 1: two lines of one stream, then one of another that begins in folder `place`."""
    written("4.0.0", "twice", folder, 0)
    line = (folder / "offsets" / "0").read_text().splitlines()[-1]
    (folder / "offsets" / ".0.crc").unlink()
    with (folder / "offsets" / "0").open("a") as offsets:
        offsets.write("\n" + line.replace("twice-4.0.0", "other"))
    beginning = folder / "sources" / "0" / "0"
    (folder / "sources" / str(place)).mkdir()
    (folder / "sources" / str(place) / "0").write_bytes(
        beginning.read_bytes().replace(b"twice-4.0.0", b"other")
    )
    return folder


def test_a_source_after_a_stream_used_twice(tmp_path: Path) -> None:
    """In version 1 it is counted by the streams before it, not by their lines."""
    plan = CheckpointPlans(str(beside_a_stream_used_twice(tmp_path, 1)), "run").plan(None, 0)
    assert ranges_of(plan) == {0: spans("twice-4.0.0", 8, 7, 5), 1: spans("other", 8, 7, 5)}


def test_no_beginning_is_taken_from_the_folder_of_another_number(tmp_path: Path) -> None:
    """A source without a name begins where its own folder says, or it is not known where."""
    folder = beside_a_stream_used_twice(tmp_path, 2)
    with pytest.raises(CheckpointError, match="sources/1/0 is missing"):
        CheckpointPlans(str(folder), "run").plan(None, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_other_sources(version: str, tmp_path: Path) -> None:
    """A source that is not Kafka is counted once it has an offset, by the plans of its batches."""
    plans = [plan_of(version, "mixed", tmp_path, batch) for batch in (2, 1, 0)]
    last, first = plans[0], plans[-1]
    assert first.counted is None
    assert last.counted is not None
    assert last.counted.indices == (0,)
    assert last.sources.keys() == {1}
    for plan, before in pairwise(plans):
        assert plan.counted is not None
        assert (BATCHES in plan.continued) is (before.counted is not None)
        assert plan.counted.plan_id != plan.counted.before
        if before.counted is None:
            break
        assert plan.counted.before == before.counted.plan_id


def test_a_plan_of_the_same_offsets_is_another_one(tmp_path: Path) -> None:
    """Where a batch was planned a second time, its file has another time, if nothing else."""
    file = written("4.0.0", "mixed", tmp_path, 2) / "offsets" / "2"
    text = file.read_text()
    time = re.search(r'"batchTimestampMs":([0-9]+)', text)
    assert time is not None
    later = text.replace(time[1], str(int(time[1]) + 1))
    settings = text.replace('"batchWatermarkMs":0', '"batchWatermarkMs":7')
    assert settings != text
    assert plan_id(text) == plan_id(settings) == plan_id(text + "\n")
    assert len({plan_id(text), plan_id(later), plan_id(text + "0")}) == 3
    for torn in ("v1", "v1\n{}", "v1\n"):
        with pytest.raises(Unreadable):
            plan_id(torn)


def test_state_and_logs(tmp_path: Path) -> None:
    """A folder of state makes it stateful, and Kafka's side is asked where there is somebody."""
    folder = written("4.0.0", "plain", tmp_path, 0)
    asked: list[Collection[TopicPartition]] = []

    def snapshot(partitions: Collection[TopicPartition]) -> GroupSnapshot:
        asked.append(partitions)
        return GroupSnapshot(
            positions={}, starts=dict.fromkeys(partitions, 0), ends={}, topic_ids={"t": "one"}
        )

    plans = CheckpointPlans(str(folder), "run", snapshot)
    plan = plans.plan(None, 0)
    assert not plan.stateful
    assert plan.topic_ids == {"t": "one"}
    assert plan.has_log_bounds
    assert not CheckpointPlans(str(folder), "run").plan(None, 0).has_log_bounds
    assert plan.log_starts.keys() == plan.sources[0].keys() == set(asked[0])
    (folder / "state" / "0").mkdir(parents=True)
    assert plans.plan(None, 0).stateful


@pytest.mark.parametrize(
    ("file", "batch"), [("offsets/1", 1), ("offsets/0", 1), ("metadata", 1), ("sources/0/0", 0)]
)
def test_a_file_that_is_missing(file: str, batch: int, tmp_path: Path) -> None:
    """Without one of its files the plan is not known, and that is said by the file's name."""
    folder = written("4.0.0", "plain", tmp_path, batch)
    (folder / file).unlink()
    with pytest.raises(CheckpointError, match=f"{file} is missing"):
        CheckpointPlans(str(folder), "run").plan(None, batch)


def test_a_batch_that_is_not_being_written(tmp_path: Path) -> None:
    """One that is done, or older than the newest planned, says nothing of the frame at hand."""
    folder = unpack("4.0.0", "plain", tmp_path)
    plans = CheckpointPlans(str(folder), "run")
    newest = max(int(file.name) for file in (folder / "offsets").iterdir() if file.name.isdigit())
    with pytest.raises(SettingsError, match=f"batch {newest} is not the batch"):
        plans.plan(None, newest)
    (folder / "commits" / str(newest)).unlink()
    assert plans.plan(None, newest).batch_id == newest
    (folder / "commits" / str(newest - 1)).unlink()
    with pytest.raises(SettingsError, match=f"batch {newest - 1} is not the batch"):
        plans.plan(None, newest - 1)


@pytest.mark.parametrize(
    ("version", "name"),
    [*((version, "join") for version in VERSIONS), ("4.2.0", "v2-join"), ("4.2.0", "v2-named")],
)
def test_where_its_query_began(version: str, name: str, tmp_path: Path) -> None:
    """Asked with a later batch it is the start of the first, of each source, named or not."""
    first = plan_of(version, name, tmp_path / "first", 0)
    plans = CheckpointPlans(str(written(version, name, tmp_path / "later", 1)), "run")
    later = plans.plan(None, 1)
    began = plans.began(later)
    assert began == {tp: span.start for tp, span in first.ranges().items()}
    assert later.began_at(began).continued == later.continued == began.keys()
    (file,) = (tmp_path / "later" / "sources").glob("*[0a-z]/0")
    file.unlink()
    with pytest.raises(CheckpointError, match="sources"):
        plans.began(later)
