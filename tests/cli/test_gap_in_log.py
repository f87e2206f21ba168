"""`eo-listener ledger accept` with -b: what a gap gives up, by the log of a real broker."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eo_listener.cli import app
from eo_listener.kafka.logs import NOTHING_HELD, Logs
from eo_listener.model.errors import SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import entry_of
from tests.broker import Broker
from tests.cli.sqlite_ledger import Store
from tests.topics import Topics

pytestmark = pytest.mark.kafka

QUICK = ["--watch", "0", "--execute"]


@pytest.fixture
def topic(broker: Broker) -> TopicPartition:
    """Offsets 4 to 19 are there."""
    topics = Topics(broker.bootstrap_servers)
    tp = TopicPartition(topics.create(partitions=1), 0)
    topics.fill(tp.topic, 20)
    topics.forget_before(tp.topic, {0: 4})
    return tp


def _store(folder: Path, tp: TopicPartition, topic_id: str | None) -> Store:
    """The partition is applied up to 2."""
    made = Store(folder / "delays.db")
    made.write(entry_of({}, {tp: OffsetRange(0, 2)}, topic_id=topic_id))
    return made


def _id(broker: Broker, tp: TopicPartition) -> str:
    with closing(Logs({"bootstrap.servers": broker.bootstrap_servers})) as logs:
        return logs.snapshot(NOTHING_HELD, [tp], time.monotonic() + 10).topic_ids[tp.topic]


def _accept(store: Store, broker: Broker, tp: TopicPartition, gap: str, *more: str) -> str:
    words = ["ledger", "accept", store.address, "--partition", str(tp), "--gap", gap]
    answer = CliRunner().invoke(app, [*words, "-b", broker.bootstrap_servers, *more])
    if isinstance(answer.exception, SettingsError):
        raise answer.exception
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_a_dry_run_says_what_is_given_up(
    broker: Broker, topic: TopicPartition, tmp_path: Path
) -> None:
    """Whether Kafka has it still, and whether the log begins later than the gap ends."""
    store = _store(tmp_path, topic, _id(broker, topic))
    said = _accept(store, broker, topic, "2..4")
    assert "given up: 2 offsets, so up to 2 records\nKafka has deleted all of them\ndry" in said
    assert "the log begins at 4: 3..4 will be another gap" in _accept(store, broker, topic, "2..3")
    kept = _accept(store, broker, topic, "2..20")
    assert "given up: 18 offsets" in kept
    assert "Kafka still has 16 of these offsets, 4..20: no batch will read them" in kept
    document = json.loads(_accept(store, broker, topic, "2..20", "--json"))
    assert (document["offsets"], document["in_log"]) == (18, 16)
    assert document["not_compared"] is None
    _accept(store, broker, topic, "2..4", *QUICK)
    (head,) = store.heads().values()
    assert head.range.until == 4


def test_a_gap_beyond_the_end_of_the_log_is_refused(
    broker: Broker, topic: TopicPartition, tmp_path: Path
) -> None:
    """What will be written there would never be read."""
    store = _store(tmp_path, topic, None)
    with pytest.raises(SettingsError, match="ends at 20"):
        _accept(store, broker, topic, "2..21", *QUICK)
    (head,) = store.heads().values()
    assert head.range.until == 2


def test_a_gap_of_another_topic_is_refused(
    broker: Broker, topic: TopicPartition, tmp_path: Path
) -> None:
    """Its offsets are others; a topic that is not there says nothing."""
    store = _store(tmp_path, topic, "tv9Lg1mUQ5mX5yWk4vcVXA")
    with pytest.raises(SettingsError, match="is not the one that the ledger speaks of"):
        _accept(store, broker, topic, "2..4", *QUICK)
    elsewhere = TopicPartition("nowhere", 0)
    store.write(entry_of({}, {elsewhere: OffsetRange(0, 2)}))
    said = _accept(store, broker, elsewhere, "2..4")
    assert f"{broker.bootstrap_servers} does not have nowhere-0" in said
