"""What is read of open transactions; Java's client is a stand-in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import pytest

from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    DescribedTransactions,
    OpenProducer,
    OpenProducers,
)
from eo_listener.kafka.open_transactions import (
    NOT_FOUND,
    StableOffsets,
    TransactionReader,
    TransactionVerdict,
)
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition

T0, T1 = TopicPartition("delays", 0), TopicPartition("delays", 1)
SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
ONGOING = DescribedTransaction(
    state="Ongoing",
    producer_id=4711,
    epoch=0,
    partitions=frozenset({T0}),
    timeout=60.0,
    started=1_000_000,
)


class Java:
    """One producer is open in a partition, and no coordinator names its id.

    Describing any id is answered by `code`.
    """

    def __init__(self, code: str = NOT_FOUND, producer_id: int = 4711) -> None:
        self.code = code
        self.producer_id = producer_id

    def open_producers(self, partitions: Collection[TopicPartition], _: float) -> OpenProducers:
        found = {T0: (OpenProducer(self.producer_id, 0, 5, 1, 1_000),)}
        return OpenProducers(found=found if partitions else {}, errors={})

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
        found = reader.open_of("id", ONGOING)
    assert (found.why is None) == (producer_id == ONGOING.producer_id)


@pytest.mark.parametrize(
    ("code", "verdict", "why"),
    [
        (NOT_FOUND, TransactionVerdict.HANGING, ""),
        (
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            TransactionVerdict.UNKNOWN,
            "--operation Describe --transactional-id '*'",
        ),
        ("COORDINATOR_LOAD_IN_PROGRESS", TransactionVerdict.UNKNOWN, "describing failed"),
        ("_TRANSPORT", TransactionVerdict.UNKNOWN, "listing failed"),
    ],
)
def test_an_id_that_coordinators_may_have_left_out(
    code: str, verdict: TransactionVerdict, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs only if this client may describe an id of any name."""
    java: Any = Java(code)
    lost = KafkaError("no leader", code="LEADER_NOT_AVAILABLE")
    ends = StableOffsets(ranges={T0: OffsetRange(5, 9)}, errors={T1: lost})
    with closing(TransactionReader(SERVERS, java)) as reader:
        monkeypatch.setattr(reader, "stable", lambda partitions: ends)
        reading = reader.read([T0, T1])
    (found,) = reading.transactions
    assert found.verdict is verdict
    assert why in (found.why or "")
    assert reading.errors == {T1: lost}, "it does not hold up the other"


class Unanswered(Java):
    """Coordinators name the producer's id; then none of them answers any more."""

    def transactional_ids(self, producers: Collection[int], _: float) -> Mapping[int, str]:
        return dict.fromkeys(producers, "eo-listener/delays/q")

    def describe_all(self, names: Collection[str], _: float) -> DescribedTransactions:
        raise KafkaError("describing failed", code="_TIMED_OUT")


def test_an_id_stays_known_when_it_cannot_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is shown whose transaction it is."""
    java: Any = Unanswered()
    with closing(TransactionReader(SERVERS, java)) as reader:
        monkeypatch.setattr(
            reader, "stable", lambda partitions: StableOffsets(ranges={T0: OffsetRange(5, 9)})
        )
        (found,) = reader.read([T0]).transactions
    assert found.transactional_id == "eo-listener/delays/q"
    assert found.verdict is TransactionVerdict.UNKNOWN
    assert "describing failed" in (found.why or "")
