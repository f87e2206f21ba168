"""What is said of a transaction whose partitions do not show it; Java's client is a stand-in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import pytest

from eo_listener.kafka import transaction_reader
from eo_listener.kafka.coordinator_proof import NO_ID_RIGHT, NOT_FOUND
from eo_listener.kafka.java_transactions import (
    Coordinators,
    DescribedTransaction,
    DescribedTransactions,
    OpenProducer,
    OpenProducers,
)
from eo_listener.kafka.open_transactions import TransactionVerdict
from eo_listener.kafka.stable_offsets import StableOffsets
from eo_listener.kafka.transaction_reader import TransactionReader
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition

T0, T1 = TopicPartition("delays", 0), TopicPartition("delays", 1)
ONGOING = DescribedTransaction(
    state="Ongoing",
    producer_id=4711,
    epoch=0,
    partitions=frozenset({T0}),
    timeout=60.0,
    started=1_000_000,
)


@pytest.mark.parametrize(
    ("producer_id", "why"), [(4711, None), (4712, "no leader shows its producer")]
)
def test_whether_its_producer_is_at_work(
    producer_id: int, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no leader shows it nobody can tell, and a live one would be fenced unseen."""

    class Java:
        def open_producers(self, partitions: Collection[TopicPartition], _: float) -> OpenProducers:
            one = OpenProducer(producer_id, 0, 0, 120, 1, 1_000_000)
            return OpenProducers(found={T0: (one,)}, errors={})

    java: Any = Java()
    with closing(TransactionReader({"bootstrap.servers": "127.0.0.1:1"}, java)) as reader:
        monkeypatch.setattr(reader, "stable", lambda partitions: StableOffsets())
        found = reader.open_of("id", ONGOING)
    assert (found.why or "")[:28] == (why or "")


@pytest.mark.parametrize("hidden", [True, False])
def test_one_whose_id_a_right_of_others_hides(
    hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in no list, as though nobody had it: it hangs only where nothing is hidden."""

    class Java:
        def open_producers(self, partitions: Collection[TopicPartition], _: float) -> OpenProducers:
            return OpenProducers(found={T0: (OpenProducer(7, 0, 0, 5, 1, 1_000),)}, errors={})

        def transactional_ids(self, producers: Collection[int], _: float) -> Mapping[int, str]:
            return {}

        def coordinators(self, _: float) -> Coordinators:
            standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            return Coordinators(
                epochs=(1,), authorizers=(standard,), patterns=("LITERAL:payments",)
            )

        def describe_all(self, names: Collection[str], _: float) -> DescribedTransactions:
            codes = {
                name: NO_ID_RIGHT if hidden and name == "payments" else NOT_FOUND for name in names
            }
            return DescribedTransactions(
                errors={name: KafkaError("failed", code=code) for name, code in codes.items()}
            )

    java: Any = Java()
    monkeypatch.setattr(transaction_reader, "oldest_records", lambda *_, **__: {})
    with closing(TransactionReader({"bootstrap.servers": "127.0.0.1:1"}, java)) as reader:
        lost = KafkaError("no leader", code="LEADER_NOT_AVAILABLE")
        ends = StableOffsets(ranges={T0: OffsetRange(5, 9)}, errors={T1: lost})
        monkeypatch.setattr(reader, "stable", lambda partitions: ends)
        reading = reader.read([T0, T1])
    (found,) = reading.transactions
    if hidden:
        assert found.verdict is TransactionVerdict.UNKNOWN
        assert "LITERAL:payments" in (found.why or "")
    else:
        assert found.verdict is TransactionVerdict.HANGING
    assert reading.errors == {T1: lost}, "it does not hold up the other"
