"""What a producer of one batch does without a broker."""

from __future__ import annotations

import time

import pytest

from eo_listener.kafka.batch_producer import BatchProducer
from eo_listener.model.errors import KafkaError, SettingsError
from eo_listener.preflight.facts import LONGEST_MS

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def test_one_that_gave_up_is_closed() -> None:
    """A producer that gave up is closed, or it would fence the next one once Kafka is back."""
    producer = BatchProducer(NOWHERE, "tx", transaction_timeout=60)
    with pytest.raises(KafkaError, match="init_transactions at"):
        producer.take_over(0.2)
    producer.leave()
    with pytest.raises(RuntimeError, match="closed"):
        producer._producer.poll(0)


def test_a_call_that_never_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that blocks is waited for up to a limit, and its producer is not closed."""
    producer = BatchProducer(NOWHERE, "tx", transaction_timeout=60)
    monkeypatch.setattr("eo_listener.kafka.batch_producer._MARGIN", 0.0)
    with pytest.raises(KafkaError, match="waiting at"):
        producer._bounded("waiting", lambda _: time.sleep(1), 0.1)
    producer.leave()
    assert producer._producer.poll(0) == 0


def test_settings_that_cannot_be() -> None:
    """Settings that librdkafka does not accept are refused when the producer is made."""
    with pytest.raises(SettingsError, match="transaction"):
        BatchProducer({**NOWHERE, "message.timeout.ms": "90000"}, "tx", transaction_timeout=60)


@pytest.mark.parametrize("timeout", [1, 2, LONGEST_MS / 1000])
def test_transactions_of_any_length(timeout: float) -> None:
    """From a second to the longest that librdkafka can ask for."""
    BatchProducer(NOWHERE, "tx", transaction_timeout=timeout).leave()
