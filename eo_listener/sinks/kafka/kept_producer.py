"""The producer of batches without transactions, from one that went well to the next."""

from __future__ import annotations

from collections.abc import Callable

from eo_listener.kafka.record_producer import IdempotentProducer
from eo_listener.sinks.kafka.catalog import Targets


class KeptProducer:
    """Keeps one producer of a sink. For one thread.

    Each new one has a new producer id, which brokers remember for a day with each partition that it
    has written to; and it takes librdkafka half a second to get one.
    """

    def __init__(self) -> None:
        self._kept: tuple[Targets, IdempotentProducer] | None = None

    def take(self, targets: Targets, make: Callable[[], IdempotentProducer]) -> IdempotentProducer:
        """Return the one that is kept, or a new one; the caller keeps it again, or lets it go.

        For targets that have changed it is a new one: what a client knows of a topic may be old.
        """
        kept, self._kept = self._kept, None
        if kept is None:
            return make()
        known, producer = kept
        if known == targets and producer.is_usable():
            return producer
        producer.leave()
        return make()

    def keep(self, targets: Targets, producer: IdempotentProducer) -> None:
        """Keep one of whose records each is acknowledged."""
        self._kept = targets, producer

    def close(self) -> None:
        """Let go of it."""
        if self._kept is not None:
            self._kept[1].leave()
            self._kept = None
