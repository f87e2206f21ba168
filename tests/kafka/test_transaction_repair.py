"""What counts as the end of a transaction: what is seen afterwards, not what was answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import pytest

from eo_listener.kafka import transaction_repair
from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    OpenProducer,
    OpenProducers,
)
from eo_listener.kafka.transaction_repair import TransactionRepair
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import TopicPartition

T0 = TopicPartition("delays", 0)
OPEN = {T0: OpenProducer(4711, 0, 0, 120, 1, 1_000_000)}
ID = "eo-listener/delays/flights"
LOST = KafkaError("the connection was lost", code="_TRANSPORT")


def described(state: str = "Ongoing", started: int | None = 7) -> DescribedTransaction:
    return DescribedTransaction(
        state=state,
        producer_id=4711,
        epoch=0,
        partitions=frozenset(OPEN),
        timeout=60.0,
        started=started,
    )


class Java:
    """Answers what leaders and the coordinator say, or that they do not."""

    def __init__(
        self,
        still_open: Mapping[TopicPartition, OpenProducer],
        state: DescribedTransaction | None = None,
        away: KafkaError | None = None,
        refused: KafkaError | None = None,
    ) -> None:
        self.still_open, self.state = still_open, state
        self.away, self.refused = away, refused

    def open_producers(self, asked: Collection[TopicPartition], timeout: float) -> OpenProducers:
        if self.away is not None:
            raise self.away
        return OpenProducers(found={tp: (one,) for tp, one in self.still_open.items()}, errors={})

    def describe(self, transactional_id: str, timeout: float) -> DescribedTransaction:
        assert self.state is not None
        return self.state

    def abort(self, tp: TopicPartition, producer: OpenProducer, timeout: float) -> None:
        if self.refused is not None:
            raise self.refused


def repair(
    monkeypatch: pytest.MonkeyPatch, java: Java, failed: KafkaError | None = None
) -> TransactionRepair:
    """A repair whose producer takes the id over, or fails to."""

    class Taken:
        def __init__(self, *_: object, **more: object) -> None:
            """Need nothing of the cluster."""

        def take_over(self, timeout: float) -> None:
            if failed is not None:
                raise failed

        def leave(self) -> None:
            """Have nothing to leave."""

    for name in ("_TIMEOUT", "_QUESTION", "_PAUSE"):
        monkeypatch.setattr(transaction_repair, name, 0.01)
    monkeypatch.setattr(transaction_repair, "BatchProducer", Taken)
    return TransactionRepair({"bootstrap.servers": "k:9092"}, java)  # type: ignore[arg-type]  # stands in


def test_an_answer_that_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id was taken over all the same: nothing is open any more, which is success."""
    gone = Java({}, described("Empty", started=None))
    repair(monkeypatch, gone, LOST).fence(ID, described(), OPEN)


def test_one_that_was_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is open as before: the error is that of the attempt, with the right that is missing."""
    same = Java(OPEN, described())
    with pytest.raises(KafkaError, match="the connection was lost"):
        repair(monkeypatch, same, LOST).fence(ID, described(), OPEN)
    right = KafkaError("refused", code="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaError, match=f"--operation Write --transactional-id {ID}"):
        repair(monkeypatch, same, right).fence(ID, described(), OPEN)
    cluster = KafkaError("refused", code="CLUSTER_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaError, match="--operation ClusterAction --cluster"):
        repair(monkeypatch, Java(OPEN, refused=cluster)).mark_aborted(OPEN)


@pytest.mark.parametrize(
    "java",
    [
        Java(OPEN, described("Empty", started=None)),
        Java({}, described("PrepareAbort")),
        Java(OPEN),
    ],
    ids=["at a leader", "at its coordinator", "no coordinator has it"],
)
def test_one_that_stays_open(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call succeeded, and it is open all the same: that is no success."""
    made = repair(monkeypatch, java)
    fence = partial(made.fence, ID, described())
    end = made.mark_aborted if java.state is None else fence
    with pytest.raises(KafkaError, match="is still open"):
        end(OPEN)


def test_the_next_transaction_of_the_same_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins behind, or later, and is another one: the first is over."""
    later = {T0: OpenProducer(4711, 1, 0, 130, 0, 1_000_000)}
    repair(monkeypatch, Java(later, described(started=8))).fence(ID, described(), OPEN)
    repair(monkeypatch, Java(later)).mark_aborted(OPEN)


def test_when_kafka_cannot_be_asked_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have ended or not, which is said."""
    away = Java({}, away=KafkaError("no broker answered", code="REQUEST_TIMED_OUT"))
    for failed in (None, LOST):
        with pytest.raises(KafkaError, match=r"not known whether .* has ended") as raised:
            repair(monkeypatch, away, failed).fence(ID, described(), OPEN)
        assert raised.value.code == "REQUEST_TIMED_OUT"
