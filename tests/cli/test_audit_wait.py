"""`audit --wait`: waits until a group is drained, and prints how the next consumer starts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from eo_listener import cli
from eo_listener.audit.advice import Advice
from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.group_checks import check_drained, has_moved
from eo_listener.audit.position_finding import PositionFindingKind
from eo_listener.audit.positions import (
    CheckpointPositions,
    GroupPositions,
    Positions,
    SourcePositions,
)
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition
from tests.broker import Broker
from tests.cli.checkpoint_files import QUERY_ID, CheckpointFiles
from tests.groups import commit_all
from tests.topics import Topics, unique

TP = TopicPartition("t", 0)
HELD = {TP: Position(offset=9)}
GROUP = GroupPositions(name="g", before=HELD, after=HELD)
LOG = LogFacts(start=2, stable=9, end=9)
DONE = CheckpointPositions(label="c", committed=4, planned=4)


@pytest.mark.parametrize(
    ("group", "log", "checkpoint", "unread", "moving", "obstacle"),
    [
        (GROUP, LOG, DONE, (), False, None),
        (GROUP, LOG, None, (), False, None),
        (replace(GROUP, after={TP: Position(offset=7)}), LOG, None, (TP,), False, "2 offsets"),
        (GROUP, replace(LOG, end=12), None, (), False, "transaction"),
        (replace(GROUP, unstable=True), LOG, None, (), False, "transaction"),
        (GROUP, LOG, replace(DONE, planned=5), (), False, "batch 5"),
        (GROUP, LOG, CheckpointPositions(label="c"), (), False, "no batch"),
        (replace(GROUP, members=("a at h",)), LOG, None, (), False, "a at h"),
        (replace(GROUP, error="INCONSISTENT_GROUP_PROTOCOL"), LOG, None, (), False, "unknown"),
        (replace(GROUP, after={}), LOG, None, (), False, "t-0"),
        (replace(GROUP, before={}, after={}), LOG, None, (), False, "no offsets"),
        (GROUP, LOG, None, (), True, "readings"),
    ],
)
def test_each_obstacle_is_named(
    group: GroupPositions,
    log: LogFacts,
    checkpoint: CheckpointPositions | None,
    unread: tuple[TopicPartition, ...],
    moving: bool,
    obstacle: str | None,
) -> None:
    source = SourcePositions(servers="h:1", logs={TP: log})
    positions = Positions(source=source, checkpoint=checkpoint, groups=(group,))
    finding = check_drained(positions, group, unread, [], Advice(), moving=moving)
    kinds = PositionFindingKind
    assert finding.kind is (kinds.GROUP_NOT_DRAINED if obstacle else kinds.GROUP_DRAINED)
    assert (obstacle or "1 partition") in finding.what


@pytest.mark.parametrize(
    "kind",
    [
        PositionFindingKind.GROUP_BEHIND,
        PositionFindingKind.CHECKPOINT_DAMAGED,
        PositionFindingKind.TOPIC_GONE,
        PositionFindingKind.BEYOND_END,
        PositionFindingKind.NOT_READ,
    ],
)
def test_what_the_audit_finds_is_an_obstacle(kind: PositionFindingKind) -> None:
    wrong = kind.finding("group g", "wrong")
    fine = PositionFindingKind.AGREED.finding("group g", "fine")
    positions = Positions(source=SourcePositions(servers="h:1", logs={TP: LOG}), groups=(GROUP,))
    finding = check_drained(positions, GROUP, (), [wrong, fine], Advice(), moving=False)
    assert f"group g: {kind.value}" in finding.what
    assert "fine" not in finding.what


@pytest.mark.parametrize(
    ("now", "moved"),
    [
        (Positions(groups=(GROUP,)), True),
        (Positions(source=SourcePositions(servers="h:1", logs={TP: LOG})), True),
        ({TP: LOG, TopicPartition("other", 0): LOG}, False),
        ({TP: replace(LOG, end=10)}, True),
    ],
)
def test_only_what_is_compared_with_the_group_must_not_move(
    now: Positions | dict[TopicPartition, LogFacts], moved: bool
) -> None:
    def reading(logs: dict[TopicPartition, LogFacts]) -> Positions:
        return Positions(source=SourcePositions(servers="h:1", logs=logs), groups=(GROUP,))

    later = now if isinstance(now, Positions) else reading(now)
    assert has_moved(reading({TP: LOG}), later, "g") is moved


Wait = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def wait(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Wait:
    def run(group: str, seconds: int, *more: str) -> tuple[int, dict[str, Any]]:
        words = ["audit", "-b", broker.bootstrap_servers, "-g", group, "--wait", str(seconds)]
        code = cli.app([*words, *more, "--json"], standalone_mode=False)
        findings = json.loads(capsys.readouterr().out)["findings"]
        (finding,) = (each for each in findings if "drained" in each["kind"])
        return code or 0, finding

    return run


@pytest.mark.kafka
def test_it_waits_until_the_group_is_drained(broker: Broker, wait: Wait) -> None:
    """And prints the start of a consumer and of a query."""
    servers, topics, group = broker.bootstrap_servers, Topics(broker.bootstrap_servers), unique("g")
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    tp = TopicPartition(topic, 0)
    commit_all(servers, group, {tp: 7})
    code, finding = wait(group, 0)
    assert (code, finding["kind"]) == (1, "group not drained")
    assert "readings" not in finding["what"]
    assert f"3 offsets to read in {tp}" in finding["what"]
    thread = threading.Timer(1.0, commit_all, (servers, group, {tp: 10}))
    thread.start()
    code, finding = wait(group, 60, "-X", "client.id=c")
    thread.join()
    assert (code, finding["kind"]) == (0, "group drained")
    assert wait(group, 0)[0] == 0  # two readings, whatever the time
    assert f"--group {group} --consumer-property auto.offset.reset=none" in finding["fix"]
    assert "--consumer.config FILE" in finding["fix"]
    assert f'.option("startingOffsets", \'{{"{topic}":{{"0":10}}}}\')' in finding["fix"]


@pytest.mark.kafka
def test_markers_of_transactions_are_no_lag(broker: Broker, wait: Wait) -> None:
    """A transaction that is open is an obstacle; the marker that ends it is not."""
    servers, topics, group = broker.bootstrap_servers, Topics(broker.bootstrap_servers), unique("g")
    topic = topics.create(partitions=1)
    topics.fill(topic, 5)
    commit_all(servers, group, {TopicPartition(topic, 0): 5})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": unique("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush(30)
    code, finding = wait(group, 0)
    assert code == 1
    assert f"a transaction is open in {topic}-0" in finding["what"]
    producer.abort_transaction(30)
    assert wait(group, 60)[0] == 0


@pytest.mark.slow
@pytest.mark.kafka
def test_the_checkpoint_must_agree(broker: Broker, wait: Wait, tmp_path: Path) -> None:
    """A batch in doubt is an obstacle, and so is a checkpoint that has done more or nothing."""
    servers, topics, group = broker.bootstrap_servers, Topics(broker.bootstrap_servers), unique("g")
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    tp = TopicPartition(topic, 0)
    metadata = CommitMetadata.for_batch(name="q", query_id=QUERY_ID, run_id="r" * 36, batch_id=0)
    commit_all(servers, group, {tp: 10}, metadata.text())
    files = CheckpointFiles(tmp_path / "c", {tp: 0})
    option = ["-c", str(files.folder)]
    assert "no batch" in wait(group, 0, *option)[1]["what"]
    files.plan(0, {tp: 10})
    assert "batch 0 of the checkpoint" in wait(group, 0, *option)[1]["what"]
    files.commit(0)
    assert wait(group, 60, *option)[0] == 0
    other = topics.create(partitions=1)
    files.plan(1, {tp: 10, TopicPartition(other, 0): 0})
    files.commit(1)
    assert "lacks partitions" in wait(group, 0, *option)[1]["what"]
