"""How the rows of a batch come into its transaction: the protocol of both write methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eo_listener.model.ledger import Applied
from eo_listener.sinks.kafka.batch_transaction import OpenTransaction, ProducerEpoch, TaskReport
from eo_listener.sinks.kafka.catalog import Targets

if TYPE_CHECKING:
    from eo_listener.kafka.batch_producer import BatchProducer
    from eo_listener.sinks.kafka.dead_letters import DeadLetters


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunTransaction:
    """The transaction of one try of one batch, begun by the driver's `producer`.

    `epoch` is what other producers join with; known only where the writer is `joined`. `targets`
    are the topics that rows may go to, as they are now. Of all producers in the transaction only
    one may send to a partition, since each begins with sequence number 0; to the ledger and to dead
    letters only the driver's sends.
    """

    transactional_id: str
    epoch: ProducerEpoch
    producer: BatchProducer
    targets: Targets
    dead_letters: DeadLetters


class BatchTry(Protocol):
    """One try to write one batch: a transaction of Kafka, or without one."""

    def write(self) -> Applied:
        """Write the batch, once. Raises what a sink's `apply` raises."""
        ...


class RowWriter(Protocol):
    """Sends the rows of one batch in one transaction; made for one try.

    `joined`: producers other than the driver's send them. The methods raise RetriableSinkError,
    SinkError, PoisonRowError and KafkaError, and SettingsError for columns that cannot be sent.
    """

    @property
    def joined(self) -> bool: ...

    def prepare(self) -> int:
        """Do what can be done before the transaction is open; return how many tasks will write."""
        ...

    def write(self, begun: BegunTransaction) -> Sequence[TaskReport]:
        """Send every row; on return each is acknowledged by Kafka, or a dead letter."""
        ...

    def describe(self, begun: BegunTransaction, /) -> OpenTransaction | None:
        """Ask the coordinator for the transaction; None where nobody has joined it."""
        ...

    def close(self) -> None:
        """Release what the try has opened; called once, whatever happened."""
        ...
