"""Whose an open transaction is, if it ends by itself, and what counts as its end; no broker."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any
from unittest.mock import Mock

import pytest

from eo_listener.client_config.identities import IdOwner, sink_transactional_id, transactional_id
from eo_listener.client_config.kafka_options import MAX_TRANSACTION_TIMEOUT_MS
from eo_listener.errors import KafkaError
from eo_listener.kafka import open_transactions
from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    DescribedTransactions,
    JavaTransactions,
    OpenProducer,
    OpenProducers,
)
from eo_listener.kafka.open_transactions import (
    COORDINATOR,
    NOT_FOUND,
    CoordinatorAnswers,
    OpenTransaction,
    StableOffsets,
    TransactionReader,
    TransactionRepair,
    TransactionVerdict,
    judge_transactions,
    stable_offsets,
    state_partition,
    still_open,
)
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import HOSTILE

T0, T1, T2, T3 = (TopicPartition("delays", number) for number in range(4))
HELD = {T0: OffsetRange(5, 9), T1: OffsetRange(7, 8)}
ID = sink_transactional_id("delays", "flights")
WRITTEN = 1_000_000
OLD = WRITTEN + MAX_TRANSACTION_TIMEOUT_MS
ONGOING = DescribedTransaction(
    state="Ongoing",
    producer_id=4711,
    epoch=2,
    partitions=frozenset({T0, T1}),
    timeout=60.0,
    started=1_000_000,
)
OPEN, ENDING, UNKNOWN, HANGING = TransactionVerdict


def producer(start: int, *, number: int = 4711, sequence: int = 3) -> OpenProducer:
    return OpenProducer(number, 2, start, sequence, WRITTEN)


def judged(
    described: DescribedTransaction | None, now_ms: int = OLD, incomplete: str | None = None
) -> tuple[OpenTransaction, ...]:
    """What is found of a producer's two partitions; None: no coordinator names its id."""
    answers = CoordinatorAnswers(
        ids={} if described is None else {4711: ID},
        described={} if described is None else {ID: described},
        incomplete=incomplete,
    )
    return judge_transactions({T0: [producer(5)], T1: [producer(7)]}, answers, HELD, now_ms)


def test_one_that_its_coordinator_has() -> None:
    """One transaction, however many partitions; it ends by its time-out, but not of two phases."""
    (found,) = judged(ONGOING)
    assert (found.verdict, found.transactional_id) == (OPEN, ID)
    assert found.blocked == {T0, T1}
    assert (found.since, found.ends_by, found.two_phase) == (1_000_000, 1_060_000, False)
    assert not found.is_overdue(1_060_000 + 60_000)
    assert found.is_overdue(1_060_000 + 60_001), "its coordinator does not end it"
    (found,) = judged(replace(ONGOING, timeout=(2**31 - 1) / 1000))  # of two phases (KIP-939)
    assert (found.two_phase, found.ends_by) == (True, None)
    assert not found.is_overdue(10**15)


@pytest.mark.parametrize(
    ("state", "now_ms", "verdict"),
    [
        ("PrepareCommit", OLD, ENDING),
        ("PrepareAbort", OLD, ENDING),
        ("PrepareEpochFence", OLD, ENDING),
        ("Empty", OLD, HANGING),
        ("CompleteAbort", OLD, HANGING),
        ("CompleteCommit", OLD, HANGING),
        ("CompleteCommit", OLD - 1, UNKNOWN),
        ("Unknown", OLD, UNKNOWN),  # of newer brokers
    ],
)
def test_each_state(state: str, now_ms: int, verdict: TransactionVerdict) -> None:
    """Only what its coordinator has as ended hangs, and that when its newest record is old."""
    (found,) = judged(replace(ONGOING, state=state), now_ms)
    assert (found.verdict, found.transactional_id, found.ends_by) == (verdict, ID, None)
    assert (found.reason is not None) == (verdict is UNKNOWN)
    assert (found.since is not None) == (verdict is ENDING), "else that of another transaction"


def test_a_partition_that_the_coordinator_does_not_know_of() -> None:
    """The rest of the transaction is ended in time; that partition hangs, and comes first."""
    hanging, open_one = judged(replace(ONGOING, partitions=frozenset({T0})))
    assert (hanging.verdict, set(hanging.producers)) == (HANGING, {T1})
    assert (open_one.verdict, set(open_one.producers)) == (OPEN, {T0})


def test_one_that_no_coordinator_names() -> None:
    """It hangs if no right hides it, and its newest record is 15 minutes old."""
    (found,) = judged(None)
    assert (found.verdict, found.transactional_id, found.since) == (HANGING, None, None)
    assert judged(None, OLD - 1)[0].verdict is UNKNOWN
    (found,) = judged(None, incomplete="no right")
    assert (found.verdict, found.reason) == (UNKNOWN, "no right")


def test_an_id_that_could_not_be_described() -> None:
    """What it has open is not known, nor is that of an id with another producer."""
    lost = KafkaError("describing failed", code="COORDINATOR_LOAD_IN_PROGRESS")
    answers = CoordinatorAnswers(ids={4711: ID}, errors={ID: lost})
    (found,) = judge_transactions({T0: [producer(5)]}, answers, HELD, OLD)
    assert (found.verdict, found.reason) == (UNKNOWN, "describing failed")
    (found,) = judged(replace(ONGOING, producer_id=4712))
    assert found.verdict is UNKNOWN


def test_only_the_first_of_a_partition_holds_it() -> None:
    """The last stable offset is where the first of two begins."""
    opened = {T0: [producer(5), producer(6, number=12)]}
    found = judge_transactions(opened, CoordinatorAnswers(), HELD, OLD)
    assert [(one.producer_id, set(one.blocked)) for one in found] == [(4711, {T0}), (12, set())]


def test_what_was_not_open_before_and_after_is_not_judged() -> None:
    """One that ended, and one that has begun since: coordinators were asked in between."""
    before = {T0: [producer(5)], T1: [producer(7)]}
    after = {T0: [producer(6)], T1: [producer(7, sequence=4), producer(8, number=12)]}
    assert still_open(before, after) == {T1: (producer(7, sequence=4),)}


@pytest.mark.parametrize("name", ["delays", "a/b", "a b%2F", *HOSTILE])
def test_our_ids_name_their_owner(name: str) -> None:
    """Sink and query of a sink's id, the group of a listener's; another id is not ours."""
    found = IdOwner.parse(sink_transactional_id(name, "flights"))
    assert found == IdOwner(sink=name, query="flights")
    assert IdOwner.parse(transactional_id(name)) == IdOwner(group=name)
    for foreign in (name, "eo-listener", "eo-listener/", "eo-listener/a", "eo-listener/a/b/c"):
        assert IdOwner.parse(foreign) is None or foreign.startswith("eo-listener-")


@pytest.mark.parametrize(
    ("group", "partition"), [("Aa", 12), ("hello", 22), ("polygenelubricants", 0), ("é😀", 12)]
)
def test_the_partition_of_a_group(group: str, partition: int) -> None:
    """By Java's hash of the text, as Kafka takes it: of the least number no absolute is taken."""
    assert state_partition(group, 50) == partition


AWAY = KafkaError("no answer", code="_TIMED_OUT")


@dataclass
class Cluster:
    """Every log ends at 9, and is stable up to 5; what a broker in `away` leads is not answered."""

    led: Mapping[TopicPartition, int]
    away: Collection[int] = ()
    stable: int = 5
    asked: list[int] = field(default_factory=list)

    def leaders(self, topics: Collection[str]) -> Mapping[TopicPartition, int]:
        assert set(topics) == {"delays"}
        return self.led

    def ranges(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetRange]:
        self.asked.append(len(partitions))
        assert all(self.led[tp] >= 0 for tp in partitions), "one without a leader is not asked for"
        if any(self.led[tp] in self.away for tp in partitions):
            raise AWAY
        return dict.fromkeys(partitions, OffsetRange(self.stable, 9))


def stable(cluster: Cluster, partitions: Collection[TopicPartition]) -> StableOffsets:
    return stable_offsets(cluster, partitions)  # type: ignore[arg-type]  # stands in for the reader


def test_one_without_a_leader_does_not_hold_up_the_others() -> None:
    """It is named as that."""
    found = stable(Cluster({T0: 1, T1: -1, T2: 2}), [T0, T1, T2])
    assert found.unstable == {T0: OffsetRange(5, 9), T2: OffsetRange(5, 9)}
    assert set(found.errors) == {T1}
    assert "partition delays-1 has no leader" in str(found.errors[T1])


def test_a_broker_that_does_not_answer() -> None:
    """The others are asked by themselves; all are asked at once where each answers."""
    cluster = Cluster({T0: 1, T1: 2, T2: 1, T3: -1}, away={2})
    found = stable(cluster, [T0, T1, T2, T3])
    assert set(found.unstable) == {T0, T2}
    assert found.errors[T1] is AWAY
    assert set(found.errors) == {T1, T3}
    assert cluster.asked == [3, 2, 1]
    whole = Cluster({T0: 1, T1: 2})
    assert len(stable(whole, [T0, T1]).ranges) == 2
    assert whole.asked == [2]


@pytest.mark.parametrize("led", [{T0: 1, T1: 1}, {T0: 1, T1: 2}, {T0: 1, T1: -1}])
def test_kafka_is_away(led: Mapping[TopicPartition, int]) -> None:
    """That is one error, and not one a partition."""
    with pytest.raises(KafkaError, match="no answer"):
        stable(Cluster(led, away={1, 2}), [T0, T1])


def test_what_is_gone_or_free() -> None:
    """A deleted partition is left out; one that is stable up to its end is not held."""
    cluster = Cluster({T0: 1}, stable=9)
    found = stable(cluster, [T0, T1])
    assert (found.ranges, found.unstable, found.errors) == ({T0: OffsetRange(9, 9)}, {}, {})
    assert not stable(cluster, []).ranges
    lost = stable(Cluster({T0: -1}), [T0])
    assert (set(lost.ranges), set(lost.errors)) == (set(), {T0})


SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
OF_T0 = replace(ONGOING, epoch=0, partitions=frozenset({T0}))


class Java:
    """One open producer, whose id no coordinator names; describing any id is answered by `code`."""

    def __init__(self, code: str = NOT_FOUND, producer_id: int = 4711) -> None:
        self.code = code
        self.producer_id = producer_id

    def open_producers(self, partitions: Collection[TopicPartition], _: float) -> OpenProducers:
        found = {T0: (OpenProducer(self.producer_id, 0, 5, 1, 1_000),)}
        return OpenProducers(by_partition=found if partitions else {}, errors={})

    def transactional_ids(self, producers: Collection[int], _: float) -> Mapping[int, str]:
        if self.code == "_TRANSPORT":
            raise KafkaError("listing failed", code=self.code)
        return {}

    def describe_all(self, names: Collection[str], _: float) -> DescribedTransactions:
        refused = KafkaError("describing failed", code=self.code)
        return DescribedTransactions(errors=dict.fromkeys(names, refused))


@pytest.mark.parametrize("producer_id", [4711, 4712])
def test_whether_its_producer_is_at_work(producer_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no leader shows it nobody can tell, and a live one would be fenced unseen."""
    java: Any = Java(producer_id=producer_id)
    with closing(TransactionReader(SERVERS, java)) as reader:
        monkeypatch.setattr(reader, "stable", lambda partitions: StableOffsets())
        found = reader.open_under("id", OF_T0)
    assert (found.reason is None) == (producer_id == OF_T0.producer_id)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (NOT_FOUND, None),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "--operation Describe --transactional-id '*'"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "describing failed"),
        ("_TRANSPORT", "listing failed"),
    ],
)
def test_an_id_that_coordinators_may_have_left_out(
    code: str, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs only if this client may describe an id of any name."""
    java: Any = Java(code)
    lost = KafkaError("no leader", code="LEADER_NOT_AVAILABLE")
    ends = StableOffsets(ranges={T0: OffsetRange(5, 9)}, errors={T1: lost})
    with closing(TransactionReader(SERVERS, java)) as reader:
        monkeypatch.setattr(reader, "stable", lambda partitions: ends)
        reading = reader.read([T0, T1])
    (found,) = reading.transactions
    unknown, hanging = TransactionVerdict.UNKNOWN, TransactionVerdict.HANGING
    assert found.verdict is (hanging if why is None else unknown)
    assert (why or "") in (found.reason or "")
    assert reading.errors == {T1: lost}, "it does not hold up the other"


def test_an_id_stays_known_when_it_cannot_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is shown whose transaction it is."""
    lost = KafkaError("describing failed", code="_TIMED_OUT")
    monkeypatch.setattr(Java, "transactional_ids", lambda *_: {4711: "eo-listener/delays/q"})
    monkeypatch.setattr(Java, "describe_all", Mock(side_effect=lost))
    java: Any = Java()
    with closing(TransactionReader(SERVERS, java)) as reader:
        ends = StableOffsets(ranges={T0: OffsetRange(5, 9)})
        monkeypatch.setattr(reader, "stable", lambda partitions: ends)
        (found,) = reader.read([T0]).transactions
    assert found.transactional_id == "eo-listener/delays/q"
    assert found.verdict is TransactionVerdict.UNKNOWN
    assert "describing failed" in (found.reason or "")


ROW = {"state": "Empty", "producerId": 1, "epoch": 0, "timeoutMs": 2**31 - 1, "startedAt": None}
REFUSED = {"code": "NOT_COORDINATOR", "cause": "it moves"}


class Shim:
    """Answers for each id and partition, one of them with an error; `sizes` has what came."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.named: list[str] = []
        self.client = JavaTransactions(self, {})

    def call(self, what: str, argument: str) -> str:
        asked = json.loads(argument)
        answer = getattr(self, what.rpartition(".")[2])(asked)
        return json.dumps({"v": 1, **answer})

    def describe(self, asked: dict[str, Any]) -> dict[str, Any]:
        names = asked["transactionalIds"]
        self.sizes.append(len(names))
        errors = {name: REFUSED for name in names if name == "id-700"}
        rows = {name: {**ROW, "topics": {"t": [0]}} for name in names if name not in errors}
        return {"described": rows, "errors": errors}

    def producers(self, asked: dict[str, Any]) -> dict[str, Any]:
        (numbers,) = asked["topics"].values()
        self.sizes.append(len(numbers))
        errors = {"t": {str(one): REFUSED for one in numbers if one == 17}}
        return {"open": {"t": [[one, 9, 0, 5, 1, 1] for one in numbers]}, "errors": errors}

    def list(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.sizes.append(len(asked["producers"]))
        return {"listed": [[number, f"id-{number}"] for number in asked["producers"]]}

    def there(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["batch"] == "b"
        self.sizes.append(len(asked["identities"]))
        self.named += asked["identities"].split("\n")
        return {}


@pytest.fixture
def shim() -> Shim:
    return Shim()


def test_many_transactions_are_described_in_parts(shim: Shim) -> None:
    """Not one by one, and not without a limit; one that fails does not hold up the others."""
    answer = shim.client.describe_all([f"id-{n}" for n in range(1200)], 1.0)
    assert shim.sizes == [500, 500, 200]
    assert (len(answer.by_id), set(answer.errors)) == (1199, {"id-700"})
    assert answer.by_id["id-3"].partitions == {TopicPartition("t", 0)}
    assert answer.by_id["id-3"].two_phase


def test_the_producers_of_many_partitions_are_asked_for_in_parts(shim: Shim) -> None:
    """A leader answers with all producers of a partition, open or not: ten at a time fit."""
    partitions = [TopicPartition("t", number) for number in range(25)]
    answer = shim.client.open_producers(partitions, 1.0)
    assert shim.sizes == [10, 10, 5]
    assert set(answer.by_partition) == set(partitions)
    assert answer.by_partition[partitions[3]] == (OpenProducer(9, 0, 5, 1, 1),)
    assert [error.code for error in answer.errors.values()] == ["NOT_COORDINATOR"]


def test_the_ids_of_many_producers_are_asked_for_in_parts(shim: Shim) -> None:
    """Of all coordinators each time."""
    assert len(shim.client.transactional_ids(range(1200), 1.0)) == 1200
    assert shim.sizes == [500, 500, 200]


def test_rows_that_are_there_are_named_in_parts(shim: Shim) -> None:
    """Each a megabyte, however many they are: a task of Spark takes no more than some of them."""
    names = [f'["{number:9}"]' for number in range(200_000)]
    shim.client.leave_out("b", iter(names))
    assert shim.named == names
    assert len(shim.sizes) == 3
    assert max(shim.sizes) < 1_200_000
    shim.client.leave_out("b", ())
    assert len(shim.sizes) == 3


ONE = OpenProducer(4711, 0, 120, 1, 1_000_000)
LOST = KafkaError("the connection was lost", code="_TRANSPORT")
EMPTY = replace(OF_T0, state="Empty", started=None)
ABORTING = replace(OF_T0, state="PrepareAbort")
EXPIRED = KafkaError("none", code=NOT_FOUND)


def transaction(*partitions: TopicPartition) -> OpenTransaction:
    return OpenTransaction(
        producer_id=4711,
        transactional_id=ID,
        verdict=TransactionVerdict.OPEN,
        producers=dict.fromkeys(partitions or (T0,), ONE),
        blocked=frozenset(),
        described=OF_T0,
    )


@dataclass
class AfterTakeOver:
    """What leaders and coordinator answer after the id was taken over; `later` moves `stable`."""

    opened: Mapping[TopicPartition, OpenProducer] = field(default_factory=dict)
    state: DescribedTransaction | KafkaError = EMPTY
    away: KafkaError | None = None
    errors: Mapping[TopicPartition, KafkaError] = field(default_factory=dict)
    stable: int = 200
    later: int = 0

    def open_producers(self, asked: Collection[TopicPartition], timeout: float) -> OpenProducers:
        if self.away is not None:
            raise self.away
        self.stable += self.later
        found = {tp: (one,) for tp, one in self.opened.items() if tp in asked}
        return OpenProducers(by_partition=found, errors=self.errors)

    def stable_offsets(self, asked: Collection[TopicPartition]) -> StableOffsets:
        return StableOffsets(ranges=dict.fromkeys(asked, OffsetRange(self.stable, 300)))

    def describe(self, transactional_id: str, timeout: float) -> DescribedTransaction:
        if isinstance(self.state, KafkaError):
            raise self.state
        return self.state


def repair(
    monkeypatch: pytest.MonkeyPatch,
    java: AfterTakeOver,
    *failed: KafkaError | None,
    limit: float = 0.01,
    producers: Mock | None = None,
) -> TransactionRepair:
    """A repair whose producers take the id over, or fail to."""
    producers = producers or Mock()
    producers.return_value.take_over.side_effect = chain(failed, repeat(None))
    for name, value in {"_PAUSE": 0.01, "_TIMEOUT": limit, "BatchProducer": producers}.items():
        monkeypatch.setattr(open_transactions, name, value)
    properties = {"bootstrap.servers": "k:9092"}
    return TransactionRepair(properties, java, java.stable_offsets)  # type: ignore[arg-type]  # stands in


OTHER = ONE._replace(producer_id=12)
NEXT = ONE._replace(epoch=1, start=130)


@pytest.mark.parametrize(
    ("java", "failed", "left"),
    [
        pytest.param(AfterTakeOver(), None, {}, id="ended"),
        pytest.param(AfterTakeOver(), LOST, {}, id="the answer was lost"),
        pytest.param(AfterTakeOver(state=EXPIRED), None, {}, id="the id has expired"),
        pytest.param(
            AfterTakeOver({T0: ONE}, OF_T0),
            LOST,
            {COORDINATOR: "Ongoing", "delays-0": "lost"},
            id="same",
        ),
        pytest.param(
            AfterTakeOver({T0: ONE}), None, {"delays-0": "still open"}, id="at its leader"
        ),
        pytest.param(
            AfterTakeOver(state=ABORTING),
            None,
            {COORDINATOR: "PrepareAbort"},
            id="at its coordinator",
        ),
        pytest.param(
            AfterTakeOver({T0: NEXT}, replace(OF_T0, started=8)), None, {}, id="its next one"
        ),
        pytest.param(AfterTakeOver(stable=120), None, {"delays-0": "120"}, id="readers held up"),
        pytest.param(
            AfterTakeOver({T0: OTHER._replace(start=100)}, stable=100),
            None,
            {},
            id="by an earlier one",
        ),
        pytest.param(
            AfterTakeOver({T0: OTHER._replace(start=130)}, stable=120),
            None,
            {"delays-0": "120"},
            id="not by one behind it",
        ),
        pytest.param(
            AfterTakeOver(errors={T0: LOST}), None, {"delays-0": "not known"}, id="no leader"
        ),
        pytest.param(
            AfterTakeOver(away=LOST, state=LOST),
            None,
            {COORDINATOR: "not known", "delays-0": "not known"},
            id="Kafka is away",
        ),
    ],
)
def test_whether_it_has_ended(
    java: AfterTakeOver,
    failed: KafkaError | None,
    left: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As leaders and the coordinator report it, each place with the reason."""
    answer = repair(monkeypatch, java, failed).fence(ID, transaction())
    assert answer.keys() == left.keys()
    assert all(why in answer[place] for place, why in left.items())


def test_each_partition_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has ended does not hide one that has not; that readers go on is waited for."""
    answer = repair(monkeypatch, AfterTakeOver({T1: ONE})).fence(ID, transaction(T0, T1))
    assert answer.keys() == {"delays-1"}
    java = AfterTakeOver(stable=117, later=1)
    assert not repair(monkeypatch, java, limit=30.0).fence(ID, transaction())
    assert java.stable == 121


def test_a_right_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was changed, and the error has the command that gives the right."""
    refused = KafkaError("refused", code="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaError, match=f"--operation Write --transactional-id {ID}"):
        repair(monkeypatch, AfterTakeOver({T0: ONE}, OF_T0), refused).fence(ID, transaction())


def test_a_time_out_above_what_brokers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id is taken over for some seconds, however long its own transactions may last."""
    too_long = KafkaError("refused", code="INVALID_TRANSACTION_TIMEOUT")
    for failed, timeouts in ((None, [10.0]), (too_long, [10.0, 1.0]), (LOST, [10.0])):
        producers = Mock()
        made = repair(monkeypatch, AfterTakeOver(), failed, producers=producers)
        assert not made.fence(ID, transaction())
        taken = [call.kwargs["transaction_timeout"] for call in producers.call_args_list]
        assert taken == timeouts, "one that may have been done is not done again"
