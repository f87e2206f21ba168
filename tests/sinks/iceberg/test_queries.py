"""Queries into Iceberg tables through exactly_once: started, repeated, killed and rolled back."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from eo_listener import IcebergSink, exactly_once
from eo_listener.events import BatchApplied, Event
from tests.foreach_batch.conftest import LEFT_SOCKETS
from tests.sinks.chapters.lake import interpret
from tests.sinks.iceberg.lake import Lake

pytestmark = [pytest.mark.spark, LEFT_SOCKETS]


class Job:
    """A query that reads files of one row each, a file a batch, into sinks."""

    def __init__(self, lake: Lake, folder: Path, *sinks: IcebergSink) -> None:
        self.lake, self.sinks = lake, sinks
        self.files, self.checkpoint = folder / "in", folder / "checkpoint"
        self.files.mkdir()
        self.next = 0

    def add(self, files: int) -> None:
        for number in range(self.next, self.next + files):
            (self.files / f"{number}.json").write_text(json.dumps({"n": number}))
        self.next += files

    def run(self) -> list[Event]:
        """Have the query read all that is there. Raises StreamingQueryException."""
        events: list[Event] = []
        function = exactly_once(*self.sinks, name="q", observers=[events.append])
        reader = self.lake.spark.readStream.schema("n int").option("maxFilesPerTrigger", 1)
        writer = reader.json(str(self.files)).writeStream.foreachBatch(function)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
        return events


def numbers(lake: Lake, table: str) -> list[int]:
    return sorted(row.n for row in lake.other().table(lake.table(table)).collect())


def of(kind: type[Event], events: list[Event]) -> int:
    return sum(isinstance(event, kind) for event in events)


def test_after_a_rollback_the_query_stops(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And goes on once what is logged undoes it; nothing is missing."""
    sink = lake.sink("t")
    job = Job(lake, tmp_path, sink)
    job.add(1)
    job.run()
    before = lake.java("t").main
    job.add(1)
    job.run()
    lake.roll_back("t", before)
    job.add(1)
    with (
        caplog.at_level(logging.WARNING, "eo_listener"),
        pytest.raises(StreamingQueryException, match="GapError"),
    ):
        job.run()
    assert numbers(lake, "t") == [0]
    said = "".join(one.getMessage() for one in caplog.records if one.levelname == "WARNING")
    later = said.partition("'main', '")[2].partition("'")[0]
    assert said.count(later) == 2, "the branch has the rows, and the command names it"
    lake.java("t")._table.manageSnapshots().fastForwardBranch("main", later).commit()
    job.run()
    assert numbers(lake, "t") == [0, 1, 2]


def test_each_query_works_in_its_own_session(lake: Lake, tmp_path: Path) -> None:
    """Two sessions of a driver have other catalogs of one name; a third one was used last."""
    (tmp_path / "there").mkdir()
    elsewhere = Lake(lake.spark.newSession(), tmp_path / "there")
    interpret(elsewhere.spark)
    elsewhere.begin(lake.namespace)
    sink = lake.sink("t")
    assert sink.key == elsewhere.sink("t").key
    jobs = []
    for one in (lake, elsewhere):
        folder = tmp_path / one.folder.name
        folder.mkdir(exist_ok=True)
        jobs.append(Job(one, folder, one.sink("t")))
    for files, job in ((1, jobs[0]), (2, jobs[1]), (1, jobs[0])):
        job.add(files)
        lake.spark.newSession().createDataFrame([(1,)], "n int")  # pyspark's active one from now on
        assert of(BatchApplied, job.run()) == files
    assert numbers(lake, "t") == [0, 1]
    assert numbers(elsewhere, "t") == [0, 1]
