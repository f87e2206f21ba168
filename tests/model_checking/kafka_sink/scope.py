"""What may happen in a search of the Kafka sink, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model_checking.batches import scope as batches
from tests.model_checking.kafka_sink.tape import SinkHow


@dataclass(frozen=True, slots=True)
class Scope(batches.Scope):
    """The bounds of a search; to the troubles of the batches come these.

    Requests: `lost`, `unanswered` and `late` (EndTxn: not arrived, arrived, arrives later; the
    answer is lost each time), `twice` (a request arrives, and its repetition later: of a task, of
    the ledger's record, InitProducerId), `torn` (a Produce of the driver arrives later or never,
    and it gives up). Tasks: `executor` (lost with its task, whose request may still arrive),
    `speculation` (a second attempt beside the first), `stage` (a second attempt of the stage),
    `orphan` (steps of tasks whose driver does not wait for them any more), `polite` (a task closes
    its producer in a way that aborts). The cluster: `timeout` (of the transaction), `expire` (of
    the transactional id), `foreign` (another sink's transaction in the ledger's partition),
    `blocked` (the ledger cannot be read to its end for too long).
    """

    sink: SinkHow = SinkHow()  # noqa: RUF009  # frozen
    verifies: bool = True  # brokers from 3.6 on, unless that is switched off
    longest: int = 1000  # epochs of one producer id
    fine: bool = False  # each marker is a step
    stops: tuple[str, ...] = ()  # before which requests a driver may be stopped; none named: all
