"""The tree of errors, and how each of them reads.

EoListenerError
├── SettingsError          what the user gave cannot be used            exit 2
│   ├── TooLateError       right, but the JVM is already running
│   └── MissingExtraError  a package that it needs is not installed; an ImportError too
├── FormatError            a text from outside is not what it should be exit 3
├── GuardError             a batch must not be applied                  exit 1
│   ├── GapError               offsets before it were never applied, or are lost
│   ├── OverlapError           a part of it was applied before
│   ├── RegressionError        it goes back behind what was applied
│   ├── NotInLedgerError       read before, and not in the ledger under this name
│   ├── MixedReplayError       some partitions were applied before, others not
│   ├── TopicRecreatedError    the ledger speaks of an older topic of that name
│   ├── PartitionVanishedError a partition in the ledger is no longer read
│   └── ForeignWriterError     another driver has moved the ledger
├── PoisonRowError         a row that the store or the transform refuses exit 1
└── UnavailableError       something this needs cannot be had           exit 3
    ├── JavaError              no Java, or one of the wrong version
    ├── DownloadError          an artifact could not be fetched or verified
    ├── BrokerError            the development broker did not start or stop
    ├── JvmError               Spark's JVM did not answer a question
    ├── StorageError           where a checkpoint lies could not be reached
    ├── SinkError              a store did not take the batch
    │   ├── TryAgainError          a conflict that repeating the batch solves
    │   ├── SinkBusyError          somebody holds a lock for too long
    │   └── OutcomeUnknownError    the answer to COMMIT was lost
    └── KafkaError             Kafka did not answer, or refused
"""

from __future__ import annotations

from collections.abc import Mapping

from eo_listener.offsets import Span, TopicPartition


class EoListenerError(Exception):
    """Base of every error that eo_listener raises on purpose.

    `problem` says what happened, `cause` what most likely led to it, `fix` what to change
    or to type. `str()` joins those that are there into one line: "problem. Cause: ... Fix: ...".
    None of them ever holds a secret.
    """

    exit_code = 3

    def __init__(self, problem: str, *, cause: str | None = None, fix: str | None = None) -> None:
        self.problem = problem
        self.cause = cause
        self.fix = fix
        super().__init__(problem, cause, fix)

    def __str__(self) -> str:
        labelled = (("", self.problem), ("Cause: ", self.cause), ("Fix: ", self.fix))
        return ". ".join(f"{label}{part.rstrip('.')}" for label, part in labelled if part)


class SettingsError(EoListenerError):
    """What the user gave cannot be used as it is."""

    exit_code = 2


class TooLateError(SettingsError):
    """The setting is right, but the JVM that should read it is already running."""


class MissingExtraError(SettingsError, ImportError):
    """A package of one of our extras is not installed: `name`, as ImportError calls it."""

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed",
            fix=f"pip install 'eo-listener[{extra}]'",
        )
        self.name = package


class FormatError(EoListenerError):
    """A text that another program wrote is not in the form it should be in."""


class GuardError(EoListenerError):
    """A batch must not be applied, and nothing of it was.

    `ranges` holds the partitions that are wrong, each with the offsets in question.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str,
        *,
        ranges: Mapping[TopicPartition, Span] | None = None,
        cause: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.ranges = dict(ranges or {})
        super().__init__(problem, cause=cause, fix=fix)


class GapError(GuardError):
    """Offsets before the batch were never applied, or are gone. `ranges`: the holes."""


class OverlapError(GuardError):
    """A part of the batch was applied before, a part was not. `ranges`: the offsets repeated."""


class RegressionError(GuardError):
    """The batch goes back behind what was applied. `ranges`: the offsets between."""


class NotInLedgerError(GuardError):
    """Earlier batches have read the partitions, and the ledger has no head of them.

    `ranges`: the offsets before the batch, or where the head stands that another name has.
    """


class MixedReplayError(GuardError):
    """Some partitions of the batch were applied before, others not. `ranges`: those that were."""


class TopicRecreatedError(GuardError):
    """The ledger speaks of an older topic of the same name. `ranges`: what was planned."""


class PartitionVanishedError(GuardError):
    """A partition in the ledger is no longer read. `ranges`: empty, where each stood last."""


class ForeignWriterError(GuardError):
    """Another driver has moved the ledger since it was read: a successor, or a zombie.

    `ranges`: what was planned. Raised by the sink's compare-and-set, inside its transaction.
    """


class PoisonRowError(EoListenerError):
    """A row that the transform has marked, or whose values the store refuses; nothing was written.

    `partition` and `offset` say where it came from, None where the rows do not tell.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str,
        *,
        partition: TopicPartition | None = None,
        offset: int | None = None,
        cause: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.partition = partition
        self.offset = offset
        super().__init__(problem, cause=cause, fix=fix)


class UnavailableError(EoListenerError):
    """Something that is needed cannot be had now."""


class JavaError(UnavailableError):
    """No Java was found, or one whose version cannot be used."""


class DownloadError(UnavailableError):
    """An artifact could not be fetched, or is not the one that was expected."""


class BrokerError(UnavailableError):
    """The development broker could not be started, found or stopped."""


class JvmError(UnavailableError):
    """Spark's JVM could not be asked, or did not answer in a form we know."""


class StorageError(UnavailableError):
    """The storage that a checkpoint lies on could not be listed or read."""


class SinkError(UnavailableError):
    """The store did not take the batch, and nothing of it was written."""


class TryAgainError(SinkError):
    """A conflict in the store (serialization, deadlock) that repeating the whole batch solves."""


class SinkBusyError(SinkError):
    """Somebody else holds a lock of the store for longer than we wait; the text names whom."""


class OutcomeUnknownError(SinkError):
    """The answer to COMMIT was lost: the store may have taken the batch. Its ledger knows."""


class KafkaError(UnavailableError):
    """Kafka did not answer in time, or refused the request.

    `code` is the name of Kafka's own error (`"GROUP_AUTHORIZATION_FAILED"`).
    """

    def __init__(
        self, problem: str, *, code: str, cause: str | None = None, fix: str | None = None
    ) -> None:
        self.code = code
        super().__init__(problem, cause=cause, fix=fix)
