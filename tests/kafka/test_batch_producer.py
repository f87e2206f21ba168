"""What a producer of one batch does without a broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException

from eo_listener.errors import KafkaError, SettingsError
from eo_listener.kafka.producers import BatchProducer, Stage
from eo_listener.preflight.facts import LONGEST_MS

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def producer() -> Iterator[BatchProducer]:
    made = BatchProducer(NOWHERE, "tx", transaction_timeout=60)
    yield made
    made.leave()


@pytest.fixture
def librdkafka(producer: BatchProducer, monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """In the place of its producer, whose queue is empty."""
    made = MagicMock(**{"flush.return_value": 0})
    monkeypatch.setattr(producer, "_producer", made)
    return made


@pytest.mark.parametrize("topic", [None, "ledger"])
def test_an_epoch_is_given_up_in_time(topic: str | None, producer: BatchProducer) -> None:
    """It is closed then, or it would fence the next one once Kafka is back."""
    begun = time.monotonic()
    with pytest.raises(KafkaError, match="init_transactions at"):
        producer.take_over(0.2, topic=topic)
    assert time.monotonic() - begun < 5.0
    producer.leave()
    with pytest.raises(RuntimeError, match="closed"):
        producer._producer.poll(0)


def test_metadata_are_asked_for_while_an_epoch_is_taken(
    producer: BatchProducer, librdkafka: MagicMock
) -> None:
    """Else librdkafka may wait half a second before it looks for the coordinator again."""
    asked = threading.Event()

    def init_transactions(timeout: float) -> None:
        assert asked.wait(timeout)

    def list_topics(topic: str, timeout: float) -> None:
        assert topic == "ledger"
        asked.set()
        raise KafkaException(Answer(Answer._TRANSPORT))

    librdkafka.configure_mock(init_transactions=init_transactions, list_topics=list_topics)
    producer.take_over(5.0, topic="ledger")
    assert producer.stage is Stage.READY


def test_a_call_never_returns(producer: BatchProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that blocks is waited for up to a limit, and its producer is not closed."""
    monkeypatch.setattr("eo_listener.kafka.producers._MARGIN", 0.0)
    with pytest.raises(KafkaError, match="waiting at"):
        producer._bounded("waiting", lambda _: time.sleep(1), 0.1)
    producer.leave()
    assert producer._producer.poll(0) == 0


def test_fenced_while_it_sends(producer: BatchProducer, librdkafka: MagicMock) -> None:
    """Says so, though confluent-kafka calls back once more and raises a SystemError of that."""
    error = SystemError("a callback was called")
    error.__cause__ = KafkaException(Answer(Answer._FENCED, "fenced", fatal=True))
    librdkafka.__len__.return_value = 1
    librdkafka.flush.side_effect = error
    with pytest.raises(KafkaError) as caught:
        producer.flush(5)
    assert caught.value.code == "_FENCED"


def test_settings_that_cannot_be() -> None:
    """Settings that librdkafka does not accept are refused when the producer is made."""
    with pytest.raises(SettingsError, match="transaction"):
        BatchProducer({**NOWHERE, "message.timeout.ms": "90000"}, "tx", transaction_timeout=60)


@pytest.mark.parametrize("timeout", [1, LONGEST_MS / 1000])
def test_transactions_of_any_length(timeout: float) -> None:
    """From a second to the longest that librdkafka can ask for."""
    BatchProducer(NOWHERE, "tx", transaction_timeout=timeout).leave()


def test_an_emptied_queue(producer: BatchProducer, librdkafka: MagicMock) -> None:
    """A record for which there was no room a moment ago is not larger than the whole queue."""
    librdkafka.produce.side_effect = [BufferError, None]
    producer.send("t", b"value")
    assert librdkafka.produce.call_count == 2


def test_what_it_reports_is_not_kept_while_others_send() -> None:
    """A text every 20 ms: of a batch of ten minutes these were some hundred megabytes."""
    producer = BatchProducer(NOWHERE, "tx", transaction_timeout=60, joined=True)
    with producer.polled():
        time.sleep(2)
    assert len(producer._producer) < 50
    producer.leave()
