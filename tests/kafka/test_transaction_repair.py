"""What counts as the end of a transaction: what is seen afterwards, not what was answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from eo_listener.errors import KafkaError
from eo_listener.kafka import open_transactions
from eo_listener.kafka.java_transactions import DescribedTransaction, OpenProducer, OpenProducers
from eo_listener.kafka.open_transactions import (
    COORDINATOR,
    NOT_FOUND,
    OpenTransaction,
    StableOffsets,
    TransactionRepair,
    TransactionVerdict,
)
from eo_listener.offsets import OffsetRange, TopicPartition

T0, T1 = (TopicPartition("delays", number) for number in range(2))
ONE = OpenProducer(4711, 0, 120, 1, 1_000_000)
ID = "eo-listener/delays/flights"
LOST = KafkaError("the connection was lost", code="_TRANSPORT")
ONGOING = DescribedTransaction(
    state="Ongoing", producer_id=4711, epoch=0, partitions=frozenset({T0}), timeout=900.0, started=7
)
EMPTY = replace(ONGOING, state="Empty", started=None)
ABORTING = replace(ONGOING, state="PrepareAbort")
EXPIRED = KafkaError("none", code=NOT_FOUND)


def transaction(*partitions: TopicPartition) -> OpenTransaction:
    return OpenTransaction(
        producer_id=4711,
        transactional_id=ID,
        verdict=TransactionVerdict.OPEN,
        producers=dict.fromkeys(partitions or (T0,), ONE),
        blocked=frozenset(),
        described=ONGOING,
    )


@dataclass
class Java:
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


taken: list[float] = []


def repair(
    monkeypatch: pytest.MonkeyPatch, java: Java, *failed: KafkaError | None, limit: float = 0.01
) -> TransactionRepair:
    """A repair whose producers take the id over, or fail to; `taken` has their time-outs."""
    taken.clear()

    class Taken:
        def __init__(self, *_: object, transaction_timeout: float) -> None:
            taken.append(transaction_timeout)

        def take_over(self, timeout: float) -> None:
            if len(taken) <= len(failed) and (error := failed[len(taken) - 1]) is not None:
                raise error

        def leave(self) -> None:
            """Have nothing to leave."""

    for name, value in {"_PAUSE": 0.01, "_TIMEOUT": limit, "BatchProducer": Taken}.items():
        monkeypatch.setattr(open_transactions, name, value)
    properties = {"bootstrap.servers": "k:9092"}
    return TransactionRepair(properties, java, java.stable_offsets)  # type: ignore[arg-type]  # stands in


OTHER = ONE._replace(producer_id=12)
NEXT = ONE._replace(epoch=1, start=130)


@pytest.mark.parametrize(
    ("java", "failed", "left"),
    [
        pytest.param(Java(), None, {}, id="ended"),
        pytest.param(Java(), LOST, {}, id="the answer was lost"),
        pytest.param(Java(state=EXPIRED), None, {}, id="the id has expired"),
        pytest.param(
            Java({T0: ONE}, ONGOING), LOST, {COORDINATOR: "Ongoing", "delays-0": "lost"}, id="same"
        ),
        pytest.param(Java({T0: ONE}), None, {"delays-0": "still open"}, id="at its leader"),
        pytest.param(
            Java(state=ABORTING), None, {COORDINATOR: "PrepareAbort"}, id="at its coordinator"
        ),
        pytest.param(Java({T0: NEXT}, replace(ONGOING, started=8)), None, {}, id="its next one"),
        pytest.param(Java(stable=120), None, {"delays-0": "120"}, id="readers held up"),
        pytest.param(
            Java({T0: OTHER._replace(start=100)}, stable=100), None, {}, id="by an earlier one"
        ),
        pytest.param(
            Java({T0: OTHER._replace(start=130)}, stable=120),
            None,
            {"delays-0": "120"},
            id="not by one behind it",
        ),
        pytest.param(Java(errors={T0: LOST}), None, {"delays-0": "not known"}, id="no leader"),
        pytest.param(
            Java(away=LOST, state=LOST),
            None,
            {COORDINATOR: "not known", "delays-0": "not known"},
            id="Kafka is away",
        ),
    ],
)
def test_whether_it_has_ended(
    java: Java, failed: KafkaError | None, left: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As leaders and the coordinator report it, each place with the reason."""
    answer = repair(monkeypatch, java, failed).fence(ID, transaction())
    assert answer.keys() == left.keys()
    assert all(why in answer[place] for place, why in left.items())


def test_each_partition_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has ended does not hide one that has not; that readers go on is waited for."""
    answer = repair(monkeypatch, Java({T1: ONE})).fence(ID, transaction(T0, T1))
    assert answer.keys() == {"delays-1"}
    java = Java(stable=117, later=1)
    assert not repair(monkeypatch, java, limit=30.0).fence(ID, transaction())
    assert java.stable == 121


def test_a_right_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was changed, and the error has the command that gives the right."""
    refused = KafkaError("refused", code="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaError, match=f"--operation Write --transactional-id {ID}"):
        repair(monkeypatch, Java({T0: ONE}, ONGOING), refused).fence(ID, transaction())


def test_a_time_out_above_what_brokers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id is taken over for some seconds, however long its own transactions may last."""
    too_long = KafkaError("refused", code="INVALID_TRANSACTION_TIMEOUT")
    for failed, timeouts in ((None, [10.0]), (too_long, [10.0, 1.0]), (LOST, [10.0])):
        assert not repair(monkeypatch, Java(), failed).fence(ID, transaction())
        assert taken == timeouts, "one that may have been done is not done again"
