"""What is said of a transaction whose partitions do not show it; Java's client is a stand-in."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import Any

import pytest

from eo_listener.kafka.java_transactions import DescribedTransaction, OpenProducer, OpenProducers
from eo_listener.kafka.transaction_reader import TransactionReader
from eo_listener.model.offsets import TopicPartition

T0 = TopicPartition("delays", 0)
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
        monkeypatch.setattr(reader, "held", lambda partitions: {})
        found = reader.open_of("id", ONGOING)
    assert (found.why or "")[:28] == (why or "")
