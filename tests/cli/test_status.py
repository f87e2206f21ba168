"""`eo-listener status` shows where a group stands, also by its exit code for a monitor."""

from __future__ import annotations

import json
import signal
import time
from contextlib import closing
from typing import Any

import pytest

from eo_listener.kafka.logs import ClusterReader
from tests.broker import Broker
from tests.cli.commands import Watching, document_of, invoke
from tests.conftest import StartBroker
from tests.groups import NAME, commit
from tests.topics import Topics, in_transaction, unique

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """A topic of two partitions with 10 records each."""
    topics = Topics(broker.bootstrap_servers)
    name = topics.create(partitions=2)
    topics.fill(name, 20)
    return name


def ends(servers: str, topic: str) -> dict[int, int]:
    with closing(ClusterReader({"bootstrap.servers": servers})) as reader:
        found = reader.log_ends(reader.partitions([topic]))
    return {tp.partition: end for tp, end in found.items()}


def test_a_group_with_lag(broker: Broker, topic: str) -> None:
    """Table and JSON show offsets, lag, query and batch; over --max-lag the exit status is 1."""
    servers, group = broker.bootstrap_servers, unique("g[/b]")
    log_ends = ends(servers, topic)
    commit(servers, group, topic, {0: log_ends[0], 1: log_ends[1] - 3})
    command = ["status", group, "-b", servers]
    table = invoke(*command).stdout
    for shown in (group, topic, NAME, "lag in total: 3"):
        assert shown in table
    told = document_of(*command)
    assert told["lag"] == 3
    assert [row["lag"] for row in told["partitions"]] == [0, 3]
    assert {(row["query"], row["batch"]) for row in told["partitions"]} == {(NAME, 7)}
    assert [invoke(*command, "--max-lag", limit).exit_code for limit in (2, 3)] == [1, 0]


def test_a_partition_never_committed_has_an_unknown_lag(broker: Broker, topic: str) -> None:
    """Which counts as over every limit."""
    servers, group = broker.bootstrap_servers, unique("g")
    commit(servers, group, topic, {0: 1})
    answer = invoke("status", group, "-b", servers, "--json", "--max-lag", 1_000_000)
    assert answer.exit_code == 1
    told = json.loads(answer.stdout)
    assert (told["lag"], told["partitions"][1]["committed"]) == (None, None)


def committed(told: dict[str, Any]) -> int | None:
    held: int | None = told["partitions"][0]["committed"]
    return held


def test_watch_reads_again_until_it_is_interrupted(broker: Broker, topic: str) -> None:
    """Ctrl-C ends it with 0 and no traceback."""
    servers, group = broker.bootstrap_servers, unique("g")
    commit(servers, group, topic, {0: 1, 1: 1})
    with Watching(servers, group) as process:
        assert committed(process.until(lambda _: True)) == 1
        commit(servers, group, topic, {0: 2, 1: 2})
        process.until(lambda told: committed(told) == 2)
        assert process.ending(signal.SIGINT) == (0, "")


@pytest.mark.slow
def test_watch_goes_on_when_the_broker_comes_back(start_broker: StartBroker) -> None:
    """Each reading that fails without Kafka is shown with its error, and the next tries again."""
    broker = start_broker()
    servers, group = broker.bootstrap_servers, unique("g")
    topic = Topics(servers).create(partitions=1)
    commit(servers, group, topic, {0: 0})
    with Watching(servers, group) as process:
        process.until(lambda told: "partitions" in told)
        broker.kill()
        told = process.until(lambda told: "error" in told)
        assert told["group"] == group
        assert "-b/--bootstrap-server" in told["error"]
        broker.restart()
        assert committed(process.until(lambda told: "partitions" in told)) == 0
        assert process.ending(signal.SIGINT) == (0, "")


def test_several_groups_and_patterns(broker: Broker, topic: str) -> None:
    """A line each; brackets are letters of a name. One that is named must hold something."""
    servers, prefix = broker.bootstrap_servers, unique("many[x]")
    for name, back in (("-a", 0), ("-b", 4)):
        behind = {part: end - back for part, end in ends(servers, topic).items()}
        commit(servers, prefix + name, topic, behind)
    for words in ([f"{prefix}-?"], [f"{prefix}*"], [f"{prefix}-a", f"{prefix}-b"]):
        groups = document_of("status", *words, "-b", servers)["groups"]
        lags = [(one["group"], one["lag"]) for one in groups]
        assert lags == [(f"{prefix}-a", 0), (f"{prefix}-b", 8)]
    table = invoke("status", f"{prefix}*", "-b", servers, "--max-lag", "7")
    assert (table.exit_code, f"{prefix}-b" in table.stdout) == (1, True)
    every = document_of("status", "--all", "-b", servers)["groups"]
    assert {f"{prefix}-a", f"{prefix}-b"} <= {one["group"] for one in every}
    for words in ([f"{prefix}-a", f"{prefix}-c"], [unique("nosuch")], [unique("nosuch") + "*"]):
        assert invoke("status", *words, "-b", servers).exit_code == 1


def test_an_open_transaction_and_the_age_of_a_record(broker: Broker) -> None:
    """What is behind an open transaction is no lag under read_committed; lag has an age."""
    servers, group = broker.bootstrap_servers, unique("g")
    topics = Topics(servers)
    topic = topics.create(partitions=1)
    hour_ago = round(time.time() * 1000) - 3_600_000
    topics.produce(topic, [{"partition": 0, "timestamp": hour_ago}] * 5)
    producer = in_transaction(servers)
    producer.produce(topic, value="open", partition=0)
    assert producer.flush(30) == 0
    commit(servers, group, topic, {0: 3})
    document = document_of("status", group, "-b", servers)
    (row,) = document["partitions"]
    assert (row["log_end"], row["log_stable"]) == (6, 5)
    assert (document["lag"], document["stable_lag"]) == (3, 2)
    assert 3600 <= document["age"] < 3600 + 600
    table = invoke("status", group, "-b", servers).stdout
    assert "lag in total: 3, of which 2 before" in table
    assert "60 min old" in table
    commit(servers, group, topic, {0: 5})
    document = document_of("status", group, "-b", servers)
    assert (document["lag"], document["stable_lag"]) == (1, 0)
    producer.abort_transaction(30)
