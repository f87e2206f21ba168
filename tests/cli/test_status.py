"""`eo-listener status` shows where a group stands, also by its exit code for a monitor."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest
from confluent_kafka import Producer

from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import Position, TopicPartition
from tests.broker import Broker
from tests.conftest import StartBroker
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka

COMMAND = [sys.executable, "-m", "eo_listener"]
NAME = "odd [/red] name"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=200, check=False
    )


def commit(servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    metadata = CommitMetadata.of(name=NAME, query_id="q" * 36, run_id="r" * 36, batch_id=7).text()
    store = SimpleGroups({"bootstrap.servers": servers})
    wanted = {
        TopicPartition(topic, partition): Position(offset=offset, metadata=metadata)
        for partition, offset in offsets.items()
    }
    deadline = time.monotonic() + 30
    while not landed(store, group, wanted):
        assert time.monotonic() < deadline
    store.close()


def landed(store: SimpleGroups, group: str, wanted: Mapping[TopicPartition, Position]) -> bool:
    """Commit once; a broker that has just started has no coordinator yet, and refuses the whole."""
    try:
        return set(store.commit(group, wanted, timeout=10).values()) == {None}
    except KafkaError:
        return False


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """A topic of two partitions with 10 records each."""
    topics = Topics(broker.bootstrap_servers)
    name = topics.create(partitions=2)
    topics.fill(name, 20)
    return name


def ends(servers: str, topic: str) -> dict[int, int]:
    reader = ClusterReader({"bootstrap.servers": servers})
    found = reader.log_ends(reader.partitions([topic]))
    reader.close()
    return {tp.partition: end for tp, end in found.items()}


def test_a_group_with_lag(broker: Broker, topic: str) -> None:
    """Table and JSON show offsets, lag, query and batch; brackets in names stay as they are."""
    servers, group = broker.bootstrap_servers, unique("g[/b]")
    log_ends = ends(servers, topic)
    commit(servers, group, topic, {0: log_ends[0], 1: log_ends[1] - 3})
    table = run("status", group, "-b", servers)
    assert table.returncode == 0, table.stderr
    for shown in (group, topic, NAME, "lag in total: 3"):
        assert shown in table.stdout
    told = json.loads(run("status", group, "-b", servers, "--json").stdout)
    assert told["lag"] == 3
    assert [row["lag"] for row in told["partitions"]] == [0, 3]
    assert {(row["query"], row["batch"]) for row in told["partitions"]} == {(NAME, 7)}


@pytest.mark.parametrize(("limit", "code"), [("2", 1), ("3", 0)])
def test_max_lag_decides_the_exit_code(limit: str, code: int, broker: Broker, topic: str) -> None:
    """Over the limit is 1, at the limit is 0."""
    servers, group = broker.bootstrap_servers, unique("g")
    log_ends = ends(servers, topic)
    commit(servers, group, topic, {0: log_ends[0], 1: log_ends[1] - 3})
    assert run("status", group, "-b", servers, "--max-lag", limit).returncode == code


def test_a_partition_never_committed_has_an_unknown_lag(broker: Broker, topic: str) -> None:
    """A partition without a commit has an unknown lag, which counts as over every limit."""
    servers, group = broker.bootstrap_servers, unique("g")
    commit(servers, group, topic, {0: 1})
    answer = run("status", group, "-b", servers, "--json", "--max-lag", "1000000")
    assert answer.returncode == 1
    told = json.loads(answer.stdout)
    assert told["lag"] is None
    assert told["partitions"][1]["committed"] is None


def test_watch_reads_again_until_it_is_interrupted(broker: Broker, topic: str) -> None:
    """One JSON document for each read; Ctrl-C ends it with 0 and no traceback."""
    servers, group = broker.bootstrap_servers, unique("g")
    commit(servers, group, topic, {0: 1, 1: 1})
    words, pipe = ["status", group, "-b", servers, "--json", "--watch", "0.3"], subprocess.PIPE
    with subprocess.Popen([*COMMAND, *words], stdout=pipe, stderr=pipe, text=True) as watching:
        try:
            assert watching.stdout is not None
            assert json.loads(watching.stdout.readline())["partitions"][0]["committed"] == 1
            commit(servers, group, topic, {0: 2, 1: 2})
            deadline = time.monotonic() + 20
            while json.loads(watching.stdout.readline())["partitions"][0]["committed"] != 2:
                assert time.monotonic() < deadline
            watching.send_signal(signal.SIGINT)
            _, said = watching.communicate(timeout=20)
        finally:
            watching.kill()
    assert watching.returncode == 0
    assert said == ""


@pytest.mark.slow
def test_watch_goes_on_when_the_broker_comes_back(start_broker: StartBroker) -> None:
    """Each read that fails without Kafka is shown with its error, and the next one tries again."""
    broker = start_broker()
    servers, group = broker.bootstrap_servers, unique("g")
    topic = Topics(servers).create(partitions=1)
    commit(servers, group, topic, {0: 0})
    words, pipe = ["status", group, "-b", servers, "--json", "--watch", "0.3"], subprocess.PIPE
    with subprocess.Popen([*COMMAND, *words], stdout=pipe, stderr=pipe, text=True) as watching:
        try:
            assert watching.stdout is not None
            assert "partitions" in json.loads(watching.stdout.readline())
            broker.kill()
            while "error" not in (told := json.loads(watching.stdout.readline())):
                pass
            assert told["group"] == group
            assert "-b/--bootstrap-server" in told["error"]
            broker.restart()
            while "partitions" not in (told := json.loads(watching.stdout.readline())):
                pass
            assert told["partitions"][0]["committed"] == 0
            watching.send_signal(signal.SIGINT)
            _, said = watching.communicate(timeout=20)
        finally:
            watching.kill()
    assert watching.returncode == 0
    assert said == ""


def test_several_groups_and_patterns(broker: Broker, topic: str) -> None:
    """A line each; brackets are letters of a name. One that is named must hold something."""
    servers, prefix = broker.bootstrap_servers, unique("many[x]")
    for name, back in (("-a", 0), ("-b", 4)):
        behind = {part: end - back for part, end in ends(servers, topic).items()}
        commit(servers, prefix + name, topic, behind)
    for words in ([f"{prefix}-?"], [f"{prefix}*"], [f"{prefix}-a", f"{prefix}-b"]):
        answer = run("status", *words, "-b", servers, "--json")
        assert (answer.returncode, answer.stderr) == (0, "")
        groups = json.loads(answer.stdout)["groups"]
        assert [(one["group"], one["lag"]) for one in groups] == [
            (f"{prefix}-a", 0),
            (f"{prefix}-b", 8),
        ]
    table = run("status", f"{prefix}*", "-b", servers, "--max-lag", "7")
    assert table.returncode == 1
    assert f"{prefix}-b" in table.stdout
    every = json.loads(run("status", "--all", "-b", servers, "--json").stdout)["groups"]
    assert {f"{prefix}-a", f"{prefix}-b"} <= {one["group"] for one in every}
    assert run("status", f"{prefix}-a", f"{prefix}-c", "-b", servers).returncode == 1
    nothing = run("status", unique("nosuch") + "*", "-b", servers)
    assert (nothing.returncode, "no group matches" in nothing.stdout) == (1, True)


def test_an_open_transaction_and_the_age_of_a_record(broker: Broker) -> None:
    """What is behind an open transaction is no lag under read_committed; lag has an age."""
    servers, group = broker.bootstrap_servers, unique("g")
    topic = Topics(servers).create(partitions=1)
    hour_ago = round(time.time() * 1000) - 3_600_000
    old = Producer({"bootstrap.servers": servers, "log_level": "0"})
    for _ in range(5):
        old.produce(topic, value="v", partition=0, timestamp=hour_ago)
    assert old.flush(30) == 0
    settings = {"bootstrap.servers": servers, "transactional.id": unique("t"), "log_level": "0"}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value="open", partition=0)
    assert producer.flush(30) == 0
    commit(servers, group, topic, {0: 3})
    document = json.loads(run("status", group, "-b", servers, "--json").stdout)
    (row,) = document["partitions"]
    assert (row["log_end"], row["log_stable"]) == (6, 5)
    assert (document["lag"], document["stable_lag"]) == (3, 2)
    assert 3600 <= document["age"] < 3600 + 600
    table = run("status", group, "-b", servers).stdout
    assert "lag in total: 3, of which 2 before open transactions" in table
    assert "oldest record still to be read: 60 min old" in table
    commit(servers, group, topic, {0: 5})
    document = json.loads(run("status", group, "-b", servers, "--json").stdout)
    assert (document["lag"], document["stable_lag"]) == (1, 0)
    producer.abort_transaction(30)


@pytest.mark.slow
def test_watch_says_that_a_group_has_stopped(broker: Broker, topic: str) -> None:
    """Burrow's verdict, for a pattern too: eleven readings without a commit, and with lag."""
    servers, group = broker.bootstrap_servers, unique("stopped")
    commit(servers, group, topic, {0: 1, 1: 1})
    words, pipe = (
        ["status", f"{group}*", "-b", servers, "--json", "--watch", "0.2"],
        subprocess.PIPE,
    )
    with subprocess.Popen([*COMMAND, *words], stdout=pipe, stderr=pipe, text=True) as watching:
        try:
            assert watching.stdout is not None
            verdicts = []
            while "STOP" not in verdicts:
                (one,) = json.loads(watching.stdout.readline())["groups"]
                verdicts.append(one["verdict"])
                assert len(verdicts) < 40
            assert verdicts[0] is None
            watching.send_signal(signal.SIGINT)
            _, said = watching.communicate(timeout=60)
        finally:
            watching.kill()
    assert (watching.returncode, said) == (0, "")


@pytest.mark.slow
def test_many_groups_of_many_partitions(broker: Broker) -> None:
    """200 groups of 100 partitions each are read at once; the time is printed, with -s."""
    servers, prefix = broker.bootstrap_servers, unique("crowd")
    topics = Topics(servers)
    topic = topics.create(partitions=100)
    topics.fill(topic, 1000)
    for number in range(200):
        commit(servers, f"{prefix}-{number}", topic, dict.fromkeys(range(100), 1))
    begun = time.perf_counter()
    answer = run("status", f"{prefix}-*", "-b", servers, "--json")
    print(f"200 groups x 100 partitions: {time.perf_counter() - begun:.2f} s")  # noqa: T201  # for who measures it
    groups = json.loads(answer.stdout)["groups"]
    assert len(groups) == 200
    assert all(len(one["partitions"]) == 100 for one in groups)
    begun = time.perf_counter()
    tool = broker.release.consumer_groups(servers, "--describe", "--all-groups")
    subprocess.run(tool, capture_output=True, timeout=600, check=True)
    print(f"kafka-consumer-groups: {time.perf_counter() - begun:.2f} s")  # noqa: T201  # for who measures it


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-b", "127.0.0.1:1"], 2, ["Name the consumer groups to show"]),
        (["g", "--all", "-b", "127.0.0.1:1"], 2, ["--all and names of groups"]),
        (["g*", "-b", "127.0.0.1:1"], 3, ["Connection refused", "--bootstrap-server"]),
        (["g", "-b", "127.0.0.1:1", "--watch", "inf"], 2, ["got inf", "at least 0.2"]),
        (["g", "-b", "127.0.0.1:1", "--watch", "1e30"], 2, ["got 1e+30", "at least 0.2"]),
        (["g", "-b", "127.0.0.1:1", "--watch", "nan"], 2, ["got nan", "at least 0.2"]),
        (["g", "-b", "127.0.0.1:1"], 3, ["Connection refused", "--bootstrap-server"]),
        (["g", "-b", ""], 2, ["host:port"]),
        (["g", "-b", "host:abc"], 2, ["host:port"]),
        ([" ", "-b", "127.0.0.1:1"], 2, ["the group is empty"]),
        (["g", "-b", "127.0.0.1:1", "-X", "nosuch=1"], 2, ["nosuch"]),
        (["g", "-b", "127.0.0.1:1", "-X", "bootstrap.servers=x:1"], 2, ["Use -b"]),
        (["g", "-b", "127.0.0.1:1", "-X", "nothing"], 2, ["key=value"]),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], code: int, words: list[str]) -> None:
    """What is wrong and the option to change, on stderr, without a traceback."""
    answer = run("status", *arguments)
    assert answer.returncode == code
    assert answer.stdout == ""
    (line,) = answer.stderr.strip().splitlines()
    for word in words:
        assert word in line


def test_an_unknown_group_is_a_finding(broker: Broker) -> None:
    """A group without offsets exits with 1, and says what to check."""
    answer = run("status", unique("nosuch"), "-b", broker.bootstrap_servers)
    assert answer.returncode == 1
    assert "holds no offsets" in answer.stdout


def test_a_full_disk_is_no_finding() -> None:
    """Output that cannot be written exits with 3, not with the 1 of a finding."""
    with open("/dev/full", "w") as full:  # noqa: PTH123  # a device
        answer = subprocess.run(
            [*COMMAND, "jar"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=200,
            check=False,
        )
    assert answer.returncode == 3
    assert "No space left" in answer.stderr
    assert "Traceback" not in answer.stderr
