"""Translates Kafka's answers to the sink into errors whose fix says who must do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eo_listener.client_config.admin_commands import AS_ADMINISTRATOR, NO_TOPIC_RIGHT, grant_command
from eo_listener.errors import (
    EoListenerError,
    ForeignWriterError,
    KafkaError,
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    SinkLockedError,
    few,
)
from eo_listener.kafka.producers import FENCED, TooLargeError
from eo_listener.model.kafka_errors import NO_STORE, NO_TOPIC, PASSING
from eo_listener.model.ledger import Entry
from eo_listener.sinks.foreign_writer import foreign_writer

_PASSING: Final = (
    PASSING
    | NO_TOPIC  # a client's metadata may be old; a missing topic is found earlier
    | {
        "CONCURRENT_TRANSACTIONS",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",  # sequence numbers begin again with the next epoch
        "UNKNOWN",  # librdkafka's name for the next, a failure within the broker
        "UNKNOWN_SERVER_ERROR",
        "UNKNOWN_PRODUCER_ID",
        "UNSTABLE_OFFSET_COMMIT",
    }
)
#: The errors while no broker is reachable: a batch then waits as long as its transaction lasts.
UNREACHABLE: Final = frozenset({"_TRANSPORT", "_RESOLVE"})
_LASTING: Final = frozenset(
    {"_AUTHENTICATION", "_SSL", "_INVALID_ARG", "_UNSUPPORTED_FEATURE", "_NO_JAVA", "_NO_STORE"}
)
_RIGHTS: Final = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (("Write", "Describe"), "--transactional-id"),
    "GROUP_AUTHORIZATION_FAILED": (("Read",), "--group"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The facts about one sink and query that error texts need."""

    label: str
    servers: str
    #: The client's name in ACLs, or None if it is not known here.
    principal: str | None
    transactional_id: str
    #: The topics of the rows, and the topic of the dead letters.
    topics: tuple[str, ...]
    #: The ledger's topic.
    ledger: str
    #: The consumer group whose offsets are committed with each batch.
    group: str | None
    #: In seconds.
    transaction_timeout: float
    #: The source's topics, if offsets of a group are committed with the batch.
    sources: tuple[str, ...] = ()
    #: True if the sink has transactions.
    fences: bool = True

    def translate(self, error: KafkaError) -> EoListenerError:
        """Return the error to raise for `error`; nothing was written."""
        code = error.code
        problem = f"{self.label}: {error.problem}"
        # The cluster refuses a producer that may not write to any topic (KIP-679).
        if code in (NO_TOPIC_RIGHT, "CLUSTER_AUTHORIZATION_FAILED"):
            return SinkError(problem, cause="a permission is missing", fix=self._grant_topics())
        if code in _RIGHTS:
            return SinkError(problem, cause="a permission is missing", fix=self._grant(code))
        if code == "INVALID_TRANSACTION_TIMEOUT":
            return SettingsError(
                f"{self.label}: transaction_timeout={self.transaction_timeout:g} exceeds the "
                "brokers' transaction.max.timeout.ms (15 minutes by default)",
                fix="Lower it, or raise the brokers' setting",
            )
        if code == "INVALID_RECORD":
            return SettingsError(
                f"{self.label}: the brokers refuse a record ({code})",
                cause="the topic is compacted, and a row has no key",
                fix="Give each row a key, or change the topic's cleanup.policy to delete",
            )
        if code in {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"}:
            return SettingsError(
                f"{self.label}: a record is larger than its topic's max.message.bytes",
                cause="the broker refuses it while the batch is being written"
                f"{', so that the whole transaction is aborted' if self.fences else ''}",
                fix=f"(1) Raise max.message.bytes of {few(self.topics)}. (2) Or set "
                "kafka.max.request.size in the sink's options to its current value, so that only "
                "the row that is too large is refused"
                + (', and can be a dead letter (write_method="driver")' if self.fences else ""),
            )
        if code == NO_STORE:
            return SinkError(
                problem,
                cause=error.cause,
                fix="Check kafka.ssl.keystore.* and kafka.ssl.truststore.* of the sink's options; "
                "or give PEM (kafka.ssl.keystore.type=PEM), which needs no Java",
            )
        if code in _PASSING or (code.startswith("_") and code not in _LASTING):
            return error.as_kind(RetriableSinkError, label=self.label)
        fix = error.fix or "See the Kafka error name"
        return error.as_kind(SinkError, label=self.label, fix=fix)

    def timeout_error(self) -> SinkError:
        """Return the error for a transaction that the broker has aborted at its time-out."""
        return SinkError(
            f"{self.label}: the batch took longer than "
            f"transaction_timeout={self.transaction_timeout:g} s, and Kafka aborted the "
            "transaction",
            cause="the transaction is open while Spark computes the batch and sends its rows",
            fix="Raise transaction_timeout=, to the brokers' transaction.max.timeout.ms at most "
            "(15 minutes by default), or write smaller batches (maxOffsetsPerTrigger)",
        )

    def fenced_error(self, entry: Entry) -> ForeignWriterError:
        """Return the error for a transactional id that another producer has taken."""
        reason = f"another producer has taken over transactional id {self.transactional_id!r}"
        return foreign_writer(self.label, entry, reason, entry.moves)

    def unknown_outcome(self, error: KafkaError) -> OutcomeUnknownError:
        """Return the error for a commit that was not confirmed."""
        write = "the commit of the transaction" if self.fences else "the ledger's record of a batch"
        return OutcomeUnknownError(
            f"{self.label}: {write} was not confirmed ({error.code}), so the batch may or may not "
            "have been written",
            cause=error.cause,
            fix="Restart the query: a batch that was written is not written twice",
        )

    def locked_error(
        self, partition: int, offset: int, owner: str | None, waited: float
    ) -> SinkLockedError:
        """Return the error for a ledger whose end cannot be read because of an open transaction."""
        by = "an unknown producer" if owner is None else repr(owner)
        return SinkLockedError(
            f"{self.label}: cannot read partition {partition} of the ledger's topic "
            f"{self.ledger} to its end: the transaction of {by} has been open for {waited:g} s, "
            f"from offset {offset}",
            cause="its driver died between its last record and its commit, or hangs",
            fix="Restart that query, which ends the transaction, or wait for its timeout; "
            f"see eo-listener txn list -b {self.servers} --topic {self.ledger}",
        )

    def size_error(self, size: int, error: TooLargeError) -> SettingsError:
        """Return the error for a record of the ledger that is too large to send."""
        return SettingsError(
            f"{self.label}: the ledger's record of a batch has {size:,} bytes: {error}",
            cause="it holds the offsets of each partition of the source and the targets",
            fix="Raise that option, and max.message.bytes of " + self.ledger,
        )

    def _grant_topics(self) -> str:
        read = self._acl(("Read", "Write", "Create", "Describe_Configs"), "--topic", self.ledger)
        needed = ("Write",) if self.fences else ("Read", "Write", "Describe_Configs")
        write = (self._acl(needed, "--topic", topic) for topic in self.topics)
        sources = (self._acl(("Read",), "--topic", topic) for topic in self.sources)
        return AS_ADMINISTRATOR + "; ".join((read, *write, *sources))

    def _grant(self, code: str) -> str:
        operations, kind = _RIGHTS[code]
        names = {"--transactional-id": self.transactional_id, "--group": self.group or "GROUP"}
        return AS_ADMINISTRATOR + self._acl(operations, kind, names[kind])

    def _acl(self, operations: tuple[str, ...], kind: str, name: str) -> str:
        return grant_command(self.servers, self.principal, operations, [kind, name])


def is_fenced(error: BaseException | None) -> bool:
    """Return True if Kafka answered that the producer is fenced, or its transaction was aborted."""
    return isinstance(error, KafkaError) and error.code in FENCED
