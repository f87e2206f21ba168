"""What `starting_offsets` makes of its arguments and of a cluster's answers; needs no broker."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from eo_listener import starting_offsets
from eo_listener.commit.tracking.routing import TOKENS
from eo_listener.errors import PartitionVanishedError, SettingsError
from eo_listener.foreach_batch.starting_offsets.origins import (
    checkpoint_origin,
    heads_origin,
    ledger_origin,
)
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.foreach_batch.starting_offsets.source_cluster import Subscription
from eo_listener.model.ledger import Head
from eo_listener.model.planned_batch import BATCHES
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition
from eo_listener.spark.checkpoint.errors import CheckpointError
from eo_listener.spark.checkpoint.log_files import BatchOffsets
from eo_listener.testing import MemorySink
from tests.foreach_batch.plans import head_of
from tests.spark.checkpoint import writers

UTC = dt.timezone.utc
NOWHERE = "127.0.0.1:1"
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Cluster:
    """Logs of ten records from offset 2 on, and a group that stands at 5 in the first of them."""

    asked: dict[str, str]
    open = 0
    when: int | None = None

    def __init__(self, options: dict[str, str]) -> None:
        type(self).asked = options
        type(self).open += 1

    def partitions(self, wanted: Subscription | None) -> tuple[TopicPartition, ...]:
        every = (T0, T1, U0)
        if wanted is None:
            return every
        if wanted.assigned is not None:
            return tuple(sorted(wanted.assigned))
        return tuple(tp for tp in every if tp.topic in (wanted.topics or ()))

    def group_origin(self, group: str, partitions: Collection[TopicPartition]) -> Origin:
        return Origin(label=group, offsets={T0: 5} if T0 in partitions else {})

    def times_origin(self, label: str, timestamps: Mapping[TopicPartition, int]) -> Origin:
        type(self).when = next(iter(timestamps.values()))
        return Origin(label=label, offsets=dict.fromkeys(timestamps, 7))

    def snapshot(self, partitions: Collection[TopicPartition]) -> GroupSnapshot:
        starts, ends = dict.fromkeys(partitions, 2), dict.fromkeys(partitions, 12)
        return GroupSnapshot(positions={}, starts=starts, ends=ends, topic_ids={})

    def close(self) -> None:
        type(self).open -= 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Cluster]]:
    """In the place of Kafka; what was opened is closed."""
    monkeypatch.setattr(
        "eo_listener.foreach_batch.starting_offsets.starting_offsets._cluster", Cluster
    )
    yield Cluster
    assert Cluster.open == 0


def started(**given: Any) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(
        starting_offsets(**{"bootstrap_servers": NOWHERE, **given})
    )
    return found


def ledger(
    offsets: dict[TopicPartition, int], ids: dict[TopicPartition, str] | None = None
) -> MemorySink:
    """A sink whose ledger of query `q` stands at these offsets."""
    sink = MemorySink()
    sink.store.heads[(sink.key, "q")] = {
        tp: Head(
            range=OffsetRange(0, at),
            topic_id=(ids or {}).get(tp),
            query_id="i",
            run_id="r",
            batch_id=0,
        )
        for tp, at in offsets.items()
    }
    return sink


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "exactly one place"),
        ({"group": "g", "timestamp": 1}, "exactly one place"),
        ({"group": "g", "missing": "none"}, "got 'none'"),
        ({"group": "g", "out_of_range": "none"}, "got 'none'"),
        ({"group": "g", "recreated": "latest"}, "got 'latest'"),
        ({"group": "g", "bootstrap_servers": ""}, "servers are not known"),
        ({"group": "g", "bootstrap_servers": None}, "servers are not known"),
        ({"group": "g", "options": {TOKENS: "one"}}, "cannot list"),
        ({"group": "g", "topics": []}, "names no topic"),
        ({"group": "g", "topics": "a,,b"}, "names no topic"),
        ({"group": "g", "options": {"subscribePattern": "("}}, "pattern"),
        ({"group": "g", "topics": "t", "options": {"assign": '{"t":[0]}'}}, "assign names"),
        ({"group": "g", "options": {"assign": '{"t":["0"]}'}}, "names no partitions"),
        ({"group": "g", "options": {"assign": '{"t":[-1]}'}}, "names no partitions"),
        ({"group": "g", "options": {"assign": "{}"}}, "names no partitions"),
        ({"group": "g", "options": {"assign": "t"}}, "names no partitions"),
        ({"timestamp": 1}, "name the topics"),
        ({"timestamp": -1, "topics": "t"}, "since 1970"),
        ({"timestamp": "noon", "topics": "t"}, "since 1970"),
        ({"timestamp": True, "topics": "t"}, "since 1970"),
        ({"timestamp": 1.5, "topics": "t"}, "since 1970"),
        ({"timestamp": 2**63, "topics": "t"}, "since 1970"),
        (
            {"timestamp": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), "topics": "t"},
            "since 1970",
        ),
        ({"timestamp": dt.datetime(2026, 1, 1), "topics": "t"}, "no time zone"),  # noqa: DTZ001  # the mistake
    ],
)
def test_bad_input(given: dict[str, Any], problem: str) -> None:
    """Each mistake is a SettingsError that says what to give, before Kafka is asked."""
    with pytest.raises(SettingsError, match=problem) as raised:
        starting_offsets(**{"bootstrap_servers": NOWHERE, **given})
    assert raised.value.fix


@pytest.mark.parametrize(
    "given",
    [
        {"ledger": MemorySink()},
        {"ledger": MemorySink(), "query": ""},
        {"ledger": []},
        {"ledger": [], "query": "q"},
    ],
)
def test_a_ledger_is_one_of_a_query(cluster: type[Cluster], given: dict[str, Any]) -> None:
    """Without the name of the query, or a sink, there is nothing to look for."""
    assert cluster.open == 0
    with pytest.raises(SettingsError, match="each sink and query name"):
        started(**given)


def test_a_group_begins_at_its_offsets(cluster: type[Cluster]) -> None:
    """What it lacks is as `missing` says; without topics, all partitions of its own count."""
    assert started(group="g") == {"t": {"0": 5, "1": -2}}
    assert cluster.asked == {"kafka.bootstrap.servers": NOWHERE}
    assert started(group="g", topics="t,u", missing="latest") == {
        "t": {"0": 5, "1": -1},
        "u": {"0": -1},
    }
    with pytest.raises(SettingsError, match="no position for t-1"):
        started(group="g", missing="fail")


def test_the_readers_options_are_taken_as_spark_takes_them(cluster: type[Cluster]) -> None:
    """Keys in any case; an argument goes before the option of the same meaning."""
    options = {"Kafka.Bootstrap.Servers": "other:1", "SUBSCRIBE": "u", "maxOffsetsPerTrigger": 5}
    assert started(group="g", options=options) == {"u": {"0": -2}}
    assert cluster.asked == {
        "kafka.bootstrap.servers": NOWHERE,
        "subscribe": "u",
        "maxoffsetspertrigger": "5",
    }
    assert started(group="g", options=options, bootstrap_servers=None) == {"u": {"0": -2}}
    assert cluster.asked["kafka.bootstrap.servers"] == "other:1"
    assert started(group="g", topics="u", options={"subscribePattern": "t"}) == {"u": {"0": -2}}


def test_assigned_partitions_are_all_there_is(cluster: type[Cluster]) -> None:
    """What an origin holds besides them is neither begun nor missed."""
    assign = {"assign": '{"t":[1],"u":[0]}'}
    sink = ledger({T0: 4, T1: 6})
    assert started(ledger=sink, query="q", options=assign) == {"t": {"1": 6}, "u": {"0": -2}}
    assert cluster.open == 0


def test_a_ledger_names_its_topics(cluster: type[Cluster]) -> None:
    """Without topics those of the ledger are taken, whole; with topics the others are left out."""
    assert cluster.open == 0
    assert started(ledger=[ledger({T0: 4})], query="q") == {"t": {"0": 4, "1": -2}}
    assert started(ledger=ledger({T0: 4, U0: 3}), query="q", topics="u") == {"u": {"0": 3}}
    with pytest.raises(PartitionVanishedError, match="gone-0"):
        started(ledger=ledger({TopicPartition("gone", 0): 4}), query="q")


def test_positions_outside_the_log(cluster: type[Cluster]) -> None:
    """The rule for them is passed on."""
    assert cluster.open == 0
    assert started(ledger=ledger({U0: 1}), query="q", out_of_range="earliest") == {"u": {"0": -2}}
    assert started(ledger=ledger({U0: 2}), query="q") == {"u": {"0": 2}}


@pytest.mark.parametrize(
    ("timestamp", "milliseconds"),
    [
        (0, 0),
        (2**63 - 1, 2**63 - 1),
        (dt.datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC), 1000),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
    ],
)
def test_a_time_is_milliseconds(cluster: type[Cluster], timestamp: Any, milliseconds: int) -> None:
    """Since the epoch, in whichever zone it is given."""
    assert started(timestamp=timestamp, topics=["u"]) == {"u": {"0": 7}}
    assert cluster.when == milliseconds


class Batches:
    """A checkpoint of batches of topic t, each ending one offset further than the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True)
        (folder / "metadata").write_text('{"id":"0f8c2a11-0000-0000-0000-000000000000"}')

    def plan(self, batch: int, *sources: Offsets) -> None:
        held = tuple(writers.source_offsets(str(index), one) for index, one in enumerate(sources))
        planned = BatchOffsets(batch=batch, version=1, metadata="{}", sources=held)
        (self.folder / "offsets" / str(batch)).write_text(writers.batch_offsets(planned))

    def finish(self, batch: int) -> None:
        (self.folder / "commits" / str(batch)).write_text("v1\n{}")


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    found = Batches(tmp_path / "c")
    found.plan(0, Offsets({T0: 3}))
    return found


def test_a_checkpoint_counts_by_its_newest_finished_batch(
    cluster: type[Cluster], batches: Batches
) -> None:
    """Not by one that was only planned; where there is none, that is said."""
    where = str(batches.folder)
    assert cluster.open == 0
    with pytest.raises(SettingsError, match="no committed batch") as unfinished:
        started(checkpoint=where)
    assert "not completed a batch" in str(unfinished.value.cause)
    with pytest.raises(SettingsError, match="no committed batch"):
        started(checkpoint=f"{where}/nosuch")
    batches.finish(0)
    batches.plan(1, Offsets({T0: 6}))
    assert started(checkpoint=where) == {"t": {"0": 3, "1": -2}}
    batches.finish(1)
    assert started(checkpoint=batches.folder.as_uri()) == {"t": {"0": 6, "1": -2}}


def test_what_two_sources_have_of_a_topic(batches: Batches) -> None:
    """The lesser of both: what one has not read yet is read once more."""
    batches.plan(0, Offsets({T0: 3, T1: 9}), Offsets({T0: 8, T1: 4}), Offsets({U0: 1}))
    batches.finish(0)
    origin = checkpoint_origin(str(batches.folder))
    assert origin.offsets == {T0: 3, T1: 4, U0: 1}
    assert origin.label == f"batch 0 of {batches.folder}"


def test_a_newer_batch_that_cannot_be_read_is_not_passed_over(batches: Batches) -> None:
    """It has written: to begin before it would write that once more."""
    batches.finish(0)
    batches.finish(1)
    with pytest.raises(CheckpointError, match="offsets/1 is missing"):
        checkpoint_origin(str(batches.folder))
    batches.plan(1, Offsets({T0: 6}))
    (batches.folder / "commits" / "1").write_bytes(b"")
    with pytest.raises(CheckpointError, match="commits/1 is empty"):
        checkpoint_origin(str(batches.folder))


def test_a_query_that_has_a_checkpoint_already(cluster: type[Cluster], batches: Batches) -> None:
    """Spark would ignore what is asked for; a folder without one may be named."""
    taken, free = batches.folder.as_uri(), (batches.folder / "free").as_uri()
    with pytest.raises(SettingsError, match="checkpoint already exists"):
        started(group="g", checkpoint_location=taken)
    assert started(group="g", checkpoint_location=free) == {"t": {"0": 5, "1": -2}}
    assert cluster.open == 0


def test_where_a_location_without_a_scheme_is(
    cluster: type[Cluster], batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Spark says; without a session nobody knows, so its full URI is asked for."""
    assert cluster.open == 0
    where = {"asked": batches.folder.as_uri()}
    monkeypatch.setattr("eo_listener.spark.jvm.calls.qualified", where.get)
    with pytest.raises(SettingsError, match="already exists at asked"):
        started(group="g", checkpoint_location="asked")
    with pytest.raises(SettingsError, match="which file system /x is on") as unknown:
        started(group="g", checkpoint_location="/x")
    assert "file:///x" in str(unknown.value.fix)
    batches.finish(0)
    assert checkpoint_origin("asked").offsets == {T0: 3}
    assert checkpoint_origin(str(batches.folder)).offsets == {T0: 3}


def test_ledgers_must_agree() -> None:
    """No start fits two sinks that stand at different offsets; of equal ones all ids count."""
    for other in ({T0: 3}, {T0: 2, T1: 1}, {T1: 2}):
        with pytest.raises(SettingsError, match="differ: t-"):
            ledger_origin([ledger({T0: 2}), ledger(other)], "q")
    with pytest.raises(SettingsError, match="no entry for query 'p'"):
        ledger_origin(ledger({T0: 2}), "p")
    both = [ledger({T0: 2, T1: 3}, {T0: "one"}), ledger({T0: 2, T1: 3}, {T1: "one"})]
    several = dict.fromkeys([TopicPartition("t", number) for number in range(20)], 2)
    ids = dict.fromkeys(several, "one")
    for wrong in (
        ledger(dict.fromkeys(several, 3), ids),
        ledger(several, dict.fromkeys(several, "other")),
    ):
        with pytest.raises(SettingsError, match="differ: t-0 "):
            ledger_origin([ledger(several, ids), wrong], "q")
    origin = ledger_origin(both, "q")
    assert origin.offsets == {T0: 2, T1: 3}
    assert origin.topic_ids == {T0: "one", T1: "one"}
    assert origin.label == f"the ledger of {both[0].label} and {both[1].label} (query 'q')"


def test_ledgers_of_two_topics_of_one_name_do_not_agree() -> None:
    """The same offset means other records; a ledger that knows no id agrees with any."""
    old, new = (ledger({T0: 2}, {T0: topic_id}) for topic_id in ("one", "two"))
    unknown = ledger({T0: 2})
    for two in ([old, new], [new, old], [unknown, old, new]):
        with pytest.raises(SettingsError, match=r"differ: t-0 .* recreated topic"):
            ledger_origin(two, "q")
    assert ledger_origin([unknown, new], "q").topic_ids == {T0: "two"}
    assert ledger_origin([new, new], "q").offsets == {T0: 2}


def test_a_ledger_without_kafka_is_no_start() -> None:
    """Of a query that reads other sources alone there are no starting offsets."""
    with pytest.raises(SettingsError, match="no Kafka offsets"):
        heads_origin("a table", "q", {BATCHES: head_of(0, 1)})
