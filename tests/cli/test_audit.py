"""`eo-listener audit` on a real Kafka: disasters that were made, what is said, and what repairs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eo_listener.kafka.range_reader import RecordReader
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.ledger import Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.broker import Broker
from tests.cli.checkpoint_files import QUERY_ID, CheckpointFiles
from tests.cli.commands import invoke, run_here
from tests.cli.sqlite_ledger import Store
from tests.groups import commit_all
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka

Said = tuple[int, dict[str, Any]]


@dataclass
class Pipeline:
    """A query that has done ten batches of ten records, as all four places have it."""

    servers: str
    topics: Topics
    topic: str
    group: str
    checkpoint: CheckpointFiles
    store: Store
    heads: dict[TopicPartition, Head]
    capsys: pytest.CaptureFixture[str]

    @property
    def topic_id(self) -> str | None:
        return self.heads[self.tp].topic_id

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def commit(self, offset: int) -> None:
        """Commit to the group, as the query's listener does."""
        metadata = CommitMetadata.for_batch(
            name=QUERY, query_id=QUERY_ID, run_id="r" * 36, batch_id=1
        )
        commit_all(self.servers, self.group, {self.tp: offset}, metadata.text())

    def audit(self, *more: str) -> Said:
        """Run the command over all four: its exit code and document."""
        words = ["audit", "-b", self.servers, "-g", self.group]
        words += ["-c", str(self.checkpoint.folder), "--ledger", self.store.address]
        return self.run(*words, *more)

    def run(self, *words: str) -> Said:
        return run_here(self.capsys, *words)

    def is_done(self, ranges: dict[TopicPartition, OffsetRange], **more: Any) -> None:
        """The next batch: in the ledger, and its rows."""
        entry = entry_of(self.heads, ranges, **more)
        self.heads = self.store.write(replace(entry, query_id=QUERY_ID))


def topic_id_of(servers: str, tp: TopicPartition) -> str | None:
    with closing(RecordReader({"bootstrap.servers": servers})) as reader:
        return reader.facts([tp])[tp].topic_id


@pytest.fixture
def pipeline(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Pipeline:
    servers = broker.bootstrap_servers
    topics = Topics(servers)
    topic = topics.create("audited", partitions=1)
    topics.fill(topic, 100)
    tp = TopicPartition(topic, 0)
    ends = ({tp: end} for end in range(10, 100, 10))
    checkpoint = CheckpointFiles(tmp_path / "checkpoint", {tp: 0}, *ends)
    store = Store(tmp_path / "store.db")
    made = Pipeline(servers, topics, topic, unique("g"), checkpoint, store, {}, capsys)
    topic_id = topic_id_of(servers, tp)
    for batch in range(9):
        ranges = {tp: OffsetRange(10 * batch, 10 * batch + 10)}
        made.is_done(ranges, batch_id=batch, topic_id=topic_id)
    made.commit(90)
    return made


def findings(said: Said) -> dict[str, dict[str, Any]]:
    """What is to be acted on, by its kind."""
    every = said[1]["findings"]
    return {one["kind"]: one for one in every if one["severity"] in ("warning", "problem")}


def test_all_four_agree(pipeline: Pipeline) -> None:
    """Exit 0; log, checkpoint, group and ledger stand side by side."""
    said = pipeline.audit()
    assert (said[0], findings(said)) == (0, {})
    assert "nothing lost" in said[1]["verdict"]
    (row,) = said[1]["partitions"]
    assert (row["log"]["start"], row["log"]["end"], row["committed"]) == (0, 100, 90)
    assert row["groups"] == {pipeline.group: 90}
    assert row["ledgers"][0]["offset"] == 90


def test_a_topic_that_no_group_holds_is_repaired_by_the_command(pipeline: Pipeline) -> None:
    """The query reads it; it is said, unless it is named as one that goes to no group."""
    other = pipeline.topics.create(partitions=1)
    pipeline.topics.fill(other, 3)
    pipeline.checkpoint.plan(9, {pipeline.tp: 90, TopicPartition(other, 0): 3})
    pipeline.checkpoint.commit(9)
    words = ["audit", "-b", pipeline.servers, "-g", pipeline.group]
    words += ["-c", str(pipeline.checkpoint.folder)]
    said = pipeline.run(*words)
    assert (said[0], set(findings(said))) == (1, {"group lacks partitions"})
    assert pipeline.run(*words, "--uncommitted", other)[0] == 0
    typed = findings(said)["group lacks partitions"]["fix"].partition("eo-listener ")[2]
    assert invoke(*shlex.split(typed), "--watch", "0.1", "--execute").exit_code == 0
    assert pipeline.run(*words)[0] == 0


def test_rows_lost_and_doubled_are_counted(pipeline: Pipeline) -> None:
    """By source offset, in the sink's table; nothing else is wrong."""
    assert pipeline.audit("--rows")[0] == 0
    pipeline.store.execute('DELETE FROM delays WHERE "offset" IN (5, 6, 89)')
    pipeline.store.execute('INSERT INTO delays SELECT * FROM delays WHERE "offset" < 2')
    said = pipeline.audit("--rows")
    assert (said[0], said[1]["lost"], said[1]["doubled"]) == (1, 3, 2)
    assert set(findings(said)) == {"rows missing", "rows doubled"}
    code, document = pipeline.audit("--rows", "--columns", "topic,partition,nosuch")
    assert code == 3
    assert any("no column 'nosuch'" in one["what"] for one in document["findings"])


def test_rows_of_a_query_at_work_are_no_alarm(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is applied after the ledger was read, and before the rows are."""
    origins = SqliteLedgerReader.row_origins

    def later(reader: SqliteLedgerReader, *given: Any) -> Iterator[tuple[str, int, int]]:
        ranges = {pipeline.tp: OffsetRange(90, 100)}
        pipeline.is_done(ranges, batch_id=9, topic_id=pipeline.topic_id)
        yield from origins(reader, *given)

    monkeypatch.setattr(SqliteLedgerReader, "row_origins", later)
    said = pipeline.audit("--rows")
    assert (said[0], findings(said)) == (0, {})
