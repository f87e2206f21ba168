"""How the rows of a batch come into its transaction: what a writer is given, and what it owes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eo_listener.sinks.kafka.batch_transaction import OpenTransaction, ProducerEpoch, TaskReport
from eo_listener.sinks.kafka.catalog import Targets

if TYPE_CHECKING:
    from eo_listener.kafka.batch_producer import BatchProducer
    from eo_listener.sinks.kafka.dead_letters import DeadLetters


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunTransaction:
    """The transaction of one try of one batch, begun by the driver's `producer`.

    `epoch` is what another producer joins by, and only known where the writer is `joined`.
    `targets` are the topics that rows may go to, as they are now. Nobody may send to a partition
    that another producer of the transaction sends to: their sequence numbers would meet. The
    ledger's partition and that of dead letters are the driver's.
    """

    transactional_id: str
    epoch: ProducerEpoch
    producer: BatchProducer
    targets: Targets
    dead_letters: DeadLetters


class RowWriter(Protocol):
    """Brings the rows of one batch into one transaction; made for one try of it.

    `joined`: by other producers than the driver's. Raises RetriableSinkError, SinkError,
    PoisonRowError, KafkaError, and SettingsError for rows that can never fit.
    """

    @property
    def joined(self) -> bool: ...

    def prepare(self) -> int:
        """Compute what can be computed before the transaction is open; return how many tasks."""
        ...

    def write(self, begun: BegunTransaction) -> Sequence[TaskReport]:
        """Send every row; on return each is acknowledged by Kafka, or a dead letter."""
        ...

    def describe(self, begun: BegunTransaction, /) -> OpenTransaction | None:
        """Ask the coordinator for the transaction; None where nobody has joined it."""
        ...

    def close(self) -> None:
        """Let go of what the try needed."""
        ...
