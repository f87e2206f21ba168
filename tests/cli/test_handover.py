"""`eo-listener handover` on a real broker: waits, proves, and names what is in the way."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from eo_listener.cli import app
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.errors import EoListenerError, SettingsError
from eo_listener.model.offsets import Position, TopicPartition
from tests.attack import surgery
from tests.broker import Broker
from tests.cli.checkpoint_files import CheckpointFiles
from tests.spark.checkpoint.recorded import unpack
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka

QUICK = ["--interval", "0.3"]


def run(*arguments: object) -> Result:
    answer = CliRunner().invoke(app, ["handover", *map(str, arguments)])
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer


def document(*arguments: object) -> dict[str, Any]:
    printed = run(*arguments, "--json").stdout
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Topics:
    return Topics(broker.bootstrap_servers)


def commit(servers: str, group: str, tp: TopicPartition, offset: int) -> None:
    store = SimpleGroups({"bootstrap.servers": servers})
    deadline = time.monotonic() + 30
    try:
        while True:
            try:
                answer = store.commit(group, {tp: Position(offset=offset)}, timeout=10)
                assert set(answer.values()) == {None}
            except EoListenerError:
                assert time.monotonic() < deadline
            else:
                return
    finally:
        store.close()


def test_it_waits_until_the_group_is_drained(topics: Topics) -> None:
    """And then prints the proof, and how a consumer or a query begins there."""
    servers, topic, group = topics.servers, topics.create(partitions=1), unique("g")
    topics.fill(topic, 10)
    tp = TopicPartition(topic, 0)
    commit(servers, group, tp, 7)
    late = document(group, "-b", servers, *QUICK, "--timeout", "0")
    assert late["drained"] is False
    assert late["lag"] == 3
    thread = threading.Timer(1.0, commit, (servers, group, tp, 10))
    thread.start()
    try:
        answer = run(group, "-b", servers, *QUICK, "--timeout", "60")
    finally:
        thread.join()
    assert answer.exit_code == 0
    assert f"group {group} is drained: 1 partition without lag" in answer.stdout
    assert f"--group {group} --consumer-property auto.offset.reset=none" in answer.stdout
    login = document(group, "-b", servers, *QUICK, "--timeout", "60", "-X", "client.id=c")
    assert "--consumer.config FILE, with your -X" in login["next"][0]
    found = document(group, "-b", servers, *QUICK, "--timeout", "60", "--to", "spark")
    assert found["next"][0] == f'.option("startingOffsets", \'{{"{topic}":{{"0":10}}}}\')'


def test_an_open_transaction_is_in_the_way(topics: Topics) -> None:
    """Its records come behind what is read; when it has ended, its markers are no lag."""
    servers, topic, group = topics.servers, topics.create(partitions=1), unique("g")
    tp = TopicPartition(topic, 0)
    topics.fill(topic, 5)
    commit(servers, group, tp, 5)
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": unique("tx"), "log_level": "0"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush(30)
    found = document(group, "-b", servers, *QUICK, "--timeout", "1")
    assert found["drained"] is False
    assert found["obstacles"] == [f"a transaction is open in {topic}-0"]
    producer.abort_transaction(30)
    assert document(group, "-b", servers, *QUICK, "--timeout", "60")["drained"] is True


def test_the_checkpoint_must_agree(topics: Topics, tmp_path: Path) -> None:
    """A batch in doubt is in the way, and a checkpoint that is not where the group is.

    So is a topic of the query of which the group holds nothing, unless another is named.
    """
    servers, topic, group = topics.servers, topics.create(partitions=1), unique("g")
    topics.fill(topic, 10)
    commit(servers, group, TopicPartition(topic, 0), 10)
    folder = unpack("4.0.0", "plain", tmp_path)
    for batch, offset in ((1, 8), (2, 10)):
        file = folder / "offsets" / str(batch)
        first, metadata, _ = file.read_text().split("\n")
        file.write_text(f'{first}\n{metadata}\n{{"{topic}":{{"0":{offset}}}}}')
        (folder / "offsets" / f".{batch}.crc").unlink()
    command = [group, "-b", servers, *QUICK, "--checkpoint", str(folder), "--timeout", "0"]
    assert document(*command)["drained"] is True
    other = topics.create(partitions=1)
    file = folder / "offsets" / "2"
    text = file.read_text()
    file.write_text(f'{text[:-1]},"{other}":{{"0":0}}}}')
    assert document(*command)["obstacles"] == [
        f"nothing is committed for {other}-0",
        f"the checkpoint is not where the group is in {other}-0",
    ]
    assert document(*command, "--topic", topic)["drained"] is True
    with pytest.raises(SettingsError, match="has no offsets of topic nosuch"):
        run(*command, "--topic", "nosuch")
    file.write_text(text)
    surgery.before_commit(folder)
    assert document(*command)["obstacles"] == [
        f"the checkpoint is not where the group is in {topic}-0",
        "batch 2 of the checkpoint is planned and not committed",
    ]


def test_a_checkpoint_that_says_nothing_is_in_the_way(topics: Topics, tmp_path: Path) -> None:
    """Cut off, without a batch, or of a topic that is gone: that it agrees is not proved."""
    servers, topic, group = topics.servers, topics.create(partitions=1), unique("g")
    topics.fill(topic, 10)
    commit(servers, group, TopicPartition(topic, 0), 10)
    files = CheckpointFiles(tmp_path / "c", {TopicPartition(topic, 0): 0})
    command = [group, "-b", servers, *QUICK, "--checkpoint", str(files.folder), "--timeout", "0"]
    (said,) = document(*command)["obstacles"]
    assert said.endswith("does not say where the query is: no batch of it is committed")
    files.plan(0, {TopicPartition(topic, 0): 10})
    files.commit(0)
    assert document(*command)["drained"] is True
    planned = files.folder / "offsets" / "0"
    whole = planned.read_text()
    planned.write_text(whole[:-3])
    (said,) = document(*command)["obstacles"]
    assert "does not say where the query is: offsets/0" in said
    gone = unique("gone")
    planned.write_text(f'{whole[:-1]},"{gone}":{{"0":1}}}}')
    (said,) = document(*command)["obstacles"]
    assert said.endswith(f"it has read {gone}-0, which Kafka does not have")


def test_a_group_that_holds_nothing(topics: Topics) -> None:
    """Is no proof of anything."""
    answer = run(unique("nosuch"), "-b", topics.servers, *QUICK, "--timeout", "0")
    assert answer.exit_code == 1
    assert "not yet: the group holds no offsets" in answer.stdout
