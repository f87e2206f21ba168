"""`eo-listener group` on a real broker: groups are seeded, rewound, exported and imported."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from typer.testing import Result

from eo_listener.errors import InUseError, SettingsError, TopicRecreatedError
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.offsets_file import read_exported
from eo_listener.offsets import Offsets, TopicPartition
from tests.broker import Broker, Release
from tests.cli.commands import document_of, error_of, invoke
from tests.conftest import kafka_version
from tests.groups import await_assignment, commit_all, positions
from tests.processes import finished
from tests.spark.checkpoint import writers
from tests.spark.checkpoint.recorded import unpack
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka

QUICK = ["--watch", "0.2", "--execute"]
HOUR = 3_600_000
BEGAN = 1_357_016_400_000  # 2013-01-01T05:00:00Z


def run(*words: object) -> Result:
    return invoke("group", *words)


class Groups:
    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.topics = Topics(servers)
        self.at = ["-b", servers]

    def hourly(self, topic: str, records: int, *, before: int = 0) -> None:
        """Append records to partition 0, one an hour from BEGAN on; `before` more before them."""
        times = (BEGAN + number * HOUR for number in range(-before, records))
        self.topics.produce(topic, ({"partition": 0, "timestamp": at} for at in times))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        commit_all(self.servers, group, offsets, metadata)

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        return {tp: at.offset for tp, at in positions(self.servers, group).items()}

    def metadata(self, group: str) -> set[CommitMetadata | None]:
        held = positions(self.servers, group).values()
        return {CommitMetadata.parse(at.metadata) for at in held}


@pytest.fixture(scope="module")
def groups(broker: Broker) -> Groups:
    return Groups(broker.bootstrap_servers)


@pytest.fixture
def checkpoint(groups: Groups, tmp_path: Path) -> tuple[Path, str]:
    """A checkpoint whose newest batch ended at 3 and 4 of a topic with 10 records each."""
    topic = groups.topics.create(partitions=3)
    groups.topics.produce(topic, ({"partition": number % 3} for number in range(30)))
    folder = unpack("4.0.0", "plain", tmp_path / "c")
    offsets = folder / "offsets" / "2"
    first, metadata, _ = offsets.read_text().split("\n")
    line = writers.source_offsets("0", Offsets.of({topic: {0: 3, 1: 4}})).text
    offsets.write_text(f"{first}\n{metadata}\n{line}")
    (folder / "offsets" / ".2.crc").unlink()
    return folder, topic


def test_a_group_is_seeded_from_a_checkpoint(groups: Groups, checkpoint: tuple[Path, str]) -> None:
    """A dry run changes nothing; then the group holds what the query has made durable."""
    folder, topic = checkpoint
    group = unique("g")
    command = ["seed", group, *groups.at, "--from-checkpoint", folder]
    dry = run(*command)
    assert (dry.exit_code, "3 partitions, add --execute" in dry.stdout) == (0, True)
    assert groups.offsets(group) == {}
    assert "3 partitions" in run(*command, *QUICK).stdout
    # A partition that came after the checkpoint begins at its start.
    assert groups.offsets(group) == {(topic, 0): 3, (topic, 1): 4, (topic, 2): 0}
    (metadata,) = groups.metadata(group)
    assert metadata is not None
    query = json.loads((folder / "metadata").read_text())["id"]
    assert (metadata.command, metadata.query_id) == ("group seed", query[:8])
    assert metadata.batch_id == 2
    assert "already there" in run(*command, *QUICK).stdout
    assert run("seed", unique("h"), *groups.at, "--from-group", group, *QUICK).exit_code == 0


def test_a_group_is_taken_back_by_a_rewind_alone(groups: Groups) -> None:
    """A seed refuses it; a rewind records what the group held, and moves nothing forward."""
    topic, group = groups.topics.create(partitions=2), unique("g")
    groups.hourly(topic, 10)
    behind, ahead = TopicPartition(topic, 1), TopicPartition(topic, 0)
    groups.commit(group, {ahead: 9, behind: 0})
    by_time = [*groups.at, "--from-time", "2013-01-01T09:00:00Z"]
    with pytest.raises(SettingsError, match=r"from 9 to 4.*group rewind"):
        run("seed", group, *by_time, *QUICK)
    assert groups.offsets(group) == {ahead: 9, behind: 0}
    found = document_of("group", "rewind", group, *by_time, *QUICK)
    assert found["executed"] is True
    assert [one["commits"] for one in found["partitions"]] == [True, False]
    assert groups.offsets(group) == {ahead: 4, behind: 0}
    written = CommitMetadata.parse(positions(groups.servers, group)[ahead].metadata)
    assert written is not None
    assert (written.command, written.rewound_from) == ("group rewind", 9)
    assert written.run_id == found["run"]


def test_a_group_with_a_member_is_left_alone(groups: Groups) -> None:
    """Dry or not: it is refused with the member's name, and holds what it held."""
    topic, group = groups.topics.create(partitions=1), unique("g")
    groups.commit(group, {TopicPartition(topic, 0): 0})
    settings = {"group.id": group, "client.id": "the-member"}
    consumer = Consumer({"bootstrap.servers": groups.servers, **settings})
    consumer.subscribe([topic])
    command = ["rewind", group, *groups.at, "--from-offsets", f'{{"{topic}":{{"0":0}}}}']
    with closing(consumer):
        await_assignment(consumer)
        for more in ([], QUICK):
            error = error_of("group", *command, *more)
            assert (error.exit_code, "the-member" in str(error)) == (1, True)


def test_a_group_that_moves_is_left_alone(groups: Groups) -> None:
    """A query without membership shows by its commits, within the seconds of --watch."""
    topic, group = groups.topics.create(partitions=1), unique("g")
    tp = TopicPartition(topic, 0)
    groups.hourly(topic, 10)
    groups.commit(group, {tp: 8})
    stop = threading.Event()

    def query() -> None:
        number = 0
        while not stop.wait(0.2):
            number += 1
            groups.commit(group, {tp: 9}, metadata=f"batch {number}")

    thread = threading.Thread(target=query)
    thread.start()
    try:
        with pytest.raises(InUseError, match="has moved"):
            run(
                *("rewind", group, *groups.at, "--from-offsets", f'{{"{topic}":{{"0":1}}}}'),
                *("--watch", "2", "--execute"),
            )
    finally:
        stop.set()
        thread.join()
    assert groups.offsets(group) == {tp: 9}


def test_kafkas_own_tool_takes_an_exported_file(groups: Groups, tmp_path: Path) -> None:
    """CSV of one group; what the tool then commits is imported again as it stands."""
    topic, group, other = groups.topics.create(partitions=2), unique("g"), unique("g")
    groups.hourly(topic, 10)
    offsets = {TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 0}
    groups.commit(group, offsets)
    file = tmp_path / "offsets.csv"
    assert run("export", group, *groups.at, "-o", file).stdout == ""
    assert file.read_text() == f"{topic},0,7\n{topic},1,0\n"

    def reset(*words: str) -> str:
        given = (groups.servers, "--reset-offsets", "--group", other, *words)
        tool = Release(version=kafka_version()).consumer_groups(*given)
        answer = finished(tool)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    shown = reset("--from-file", str(file), "--execute")
    assert groups.offsets(other) == offsets, shown
    (exported,) = read_exported(reset("--all-topics", "--to-current", "--export", "--dry-run"))
    assert {one.partition: one.offset for one in exported.partitions} == offsets
    several = tmp_path / "several.csv"
    run("export", group, other, *groups.at, "-o", several)
    third = unique("g")
    with pytest.raises(SettingsError, match="2 groups"):
        run("import", third, several, *groups.at)
    run("import", third, file, *groups.at, *QUICK)
    assert groups.offsets(third) == offsets
    assert {one.command for one in groups.metadata(third) if one} == {"group import"}


def test_a_group_is_moved_to_a_copy_by_time(groups: Groups, tmp_path: Path) -> None:
    """Where offsets are other records, they are refused; by time nothing unread is left out."""
    # The copy has the same records and times at other offsets, as on another cluster.
    topic = groups.topics.create(partitions=2)
    group, drained, copy = unique("g"), unique("g"), unique("g")
    tp = TopicPartition(topic, 0)
    groups.hourly(topic, 10)
    groups.commit(group, {tp: 6})
    groups.commit(drained, {tp: 10, TopicPartition(topic, 1): 0})
    files = {}
    for one in (group, drained):
        files[one] = tmp_path / one
        run("export", one, *groups.at, "--format", "json", "--times", "-o", files[one])
    groups.topics.delete(topic)
    groups.topics.create_as(topic, partitions=2)
    groups.hourly(topic, 10, before=3)
    with pytest.raises(TopicRecreatedError, match="--recreated earliest"):
        run("import", copy, files[group], *groups.at)
    run("import", copy, files[group], *groups.at, "--by-time", *QUICK)
    assert groups.offsets(copy) == {tp: 9}, "the record of hour 6, 3 later"
    late = unique("g")
    with pytest.raises(SettingsError, match=f"no times for {topic}-1"):
        run("import", late, files[drained], *groups.at, "--by-time")
    written = json.loads(files[drained].read_text())
    del written["groups"][0]["partitions"][1]
    files[drained].write_text(json.dumps(written))
    run("import", late, files[drained], *groups.at, "--by-time", *QUICK)
    assert groups.offsets(late) == {tp: 12}, "the last record that was read is read again"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["seed", "g", "--from-offsets", '{"nosuch":{"0":1}}'], 1, "Kafka lacks partitions"),
        (["seed", "g", "--from-offsets", '{"TOPIC":{"0":99}}'], 1, "beyond the end"),
        (["seed", "g", "--from-time", "0"], 2, "the group holds none"),
        (["seed", "g", "--from-group", "nosuch"], 2, "holds no offsets"),
        (["seed", "g", "--from-offsets", '{"TOPIC":{"0":1}}', "-t", "u"], 2, "no offsets of the"),
        (["export", "nosuch"], 2, "holds no offsets"),
    ],
)
def test_bad_input(arguments: list[str], code: int, words: str, groups: Groups) -> None:
    """One error with its exit code; nothing is committed."""
    topic, group = groups.topics.create(partitions=1), unique("bad")
    given = [group if one == "g" else one.replace("TOPIC", topic) for one in arguments]
    error = error_of("group", *given, *groups.at)
    assert (error.exit_code, words in str(error)) == (code, True), error
    assert groups.offsets(group) == {}
