"""All errors, and how their texts read.

EoListenerError
├── SettingsError              an argument or option cannot be used         exit 2
│   ├── JvmAlreadyRunningError     valid, but the JVM is already running
│   └── MissingExtraError          a package is not installed; an ImportError too
├── FormatError                text from another program has the wrong form exit 3
├── GuardError                 a batch must not be applied                  exit 1
│   ├── GapError                   offsets before it were never applied, or are lost
│   ├── OverlapError               a part of it was already applied
│   ├── RegressionError            it starts or ends below what was applied
│   ├── NotInLedgerError           read before, but not in the ledger under this name
│   ├── PartialReplayError         some partitions were already applied, others not
│   ├── TopicRecreatedError        the ledger belongs to an older topic of the same name
│   ├── NewCheckpointError         what is not Kafka was read under another checkpoint
│   ├── PartitionVanishedError     a partition in the ledger is no longer read
│   ├── ForeignWriterError         another driver has written to the ledger
│   ├── TargetRecordsError         a target holds rows twice, or has lost some
│   └── UnfinishedBatchError       it does not continue the one that was begun before it
├── InUseError                 what is to be repaired is in use             exit 1
├── PoisonRowError             the store or the transform refuses a row     exit 1
└── UnavailableError           something required is not available          exit 3
    ├── JavaError                  no Java, or an unsupported version
    ├── DownloadError              an artifact could not be fetched or verified
    ├── BrokerError                the development broker did not start or stop
    ├── JvmError                   a call into Spark's JVM failed
    ├── StorageError               the storage of a checkpoint could not be read
    ├── SinkError                  a store did not apply the batch
    │   ├── RetriableSinkError         a conflict; repeating the batch solves it
    │   ├── SinkLockedError            somebody holds a lock for too long
    │   └── OutcomeUnknownError        the answer to COMMIT was lost
    └── KafkaError                 Kafka did not answer, or refused
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eo_listener.model.offsets import OffsetRange, TopicPartition

_SHOWN = 5  # partitions named in a line


class EoListenerError(Exception):
    """Base of all errors that eo_listener raises.

    `problem` says what happened, `cause` the most likely reason, `fix` what to change or type.
    `str()` joins them into one line: "problem. Cause: ... Fix: ...". None holds a secret.
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
    """An argument, an option or a setting cannot be used as given."""

    exit_code = 2


class JvmAlreadyRunningError(SettingsError):
    """The setting is valid, but the JVM that should read it is already running."""


class MissingExtraError(SettingsError, ImportError):
    """A package of an optional extra is not installed; `name` is the package, as in ImportError."""

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed",
            fix=install(extra),
        )
        self.name = package


class FormatError(EoListenerError):
    """Text that another program wrote does not have the expected form."""


class GuardError(EoListenerError):
    """A batch must not be applied, and no part of it was.

    `ranges` has the offsets in question, by partition.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str,
        *,
        ranges: Mapping[TopicPartition, OffsetRange] | None = None,
        cause: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.ranges = dict(ranges or {})
        super().__init__(problem, cause=cause, fix=fix)


class GapError(GuardError):
    """Offsets before the batch were never applied, or are lost. `ranges`: the gaps."""


class OverlapError(GuardError):
    """A part of the batch was already applied, a part was not. `ranges`: the repeated offsets."""


class RegressionError(GuardError):
    """The batch starts or ends below what was applied. `ranges`: the offsets between."""


class NotInLedgerError(GuardError):
    """Earlier batches have read these partitions, but the ledger has no head for them.

    `ranges`: the offsets before the batch, or the head that exists under another name.
    """


class PartialReplayError(GuardError):
    """Some partitions of the batch were already applied, others not. `ranges`: the applied ones."""


class TopicRecreatedError(GuardError):
    """The ledger belongs to an older topic of the same name. `ranges`: the batch's offsets."""


class NewCheckpointError(GuardError):
    """What is not Kafka was read under another checkpoint, whose batches mean nothing in this one.

    `ranges`: the number of the batch.
    """


class PartitionVanishedError(GuardError):
    """A partition in the ledger is no longer read. `ranges`: an empty range at its last offset."""


class ForeignWriterError(GuardError):
    """Another driver, a successor or a zombie, has written to the ledger since it was read.

    `ranges`: the batch's offsets. Raised by the compare-and-set inside the sink's transaction.
    """


class TargetRecordsError(GuardError):
    """A target holds rows twice, or has lost some, which a sink without transactions cannot undo.

    `ranges`: the offsets of the target's partitions between which they are.
    """


class UnfinishedBatchError(GuardError):
    """A batch was begun without transactions and not finished, and this one does not continue it.

    `ranges`: the source's offsets that were begun.
    """


class InUseError(EoListenerError):
    """A group or a ledger that is to be repaired is in use, or has moved meanwhile."""

    exit_code = 1


class PoisonRowError(EoListenerError):
    """The transform has marked a row, or the store refuses its values; nothing was written.

    `partition` and `offset` are the row's origin, None if the rows do not carry it.
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
    """Something required is not available at the moment."""


class JavaError(UnavailableError):
    """No Java was found, or only an unsupported version."""


class DownloadError(UnavailableError):
    """An artifact could not be fetched, or its checksum is wrong."""


class BrokerError(UnavailableError):
    """The development broker could not be started, found or stopped."""


class JvmError(UnavailableError):
    """A call into Spark's JVM failed, or its answer has an unknown form."""


class StorageError(UnavailableError):
    """The storage of a checkpoint could not be listed or read."""


class SinkError(UnavailableError):
    """The store did not apply the batch, and nothing of it was written."""


class RetriableSinkError(SinkError):
    """A conflict in the store (serialization, deadlock); repeating the whole batch solves it."""


class SinkLockedError(SinkError):
    """Somebody holds a lock in the store for longer than the time-out; the text names whom."""


class OutcomeUnknownError(SinkError):
    """The answer to COMMIT was lost: the batch may be applied, which its ledger shows."""


class KafkaError(UnavailableError):
    """Kafka did not answer in time, or refused the request.

    `code` is the name of Kafka's own error (`"GROUP_AUTHORIZATION_FAILED"`).
    """

    def __init__(
        self, problem: str, *, code: str, cause: str | None = None, fix: str | None = None
    ) -> None:
        self.code = code
        super().__init__(problem, cause=cause, fix=fix)


def install(extra: str) -> str:
    """The command that installs one of our extras."""
    return f"pip install 'eo-listener[{extra}]'"


def few(things: Iterable[object]) -> str:
    """Name the first few, and how many more there are."""
    names = [str(thing) for thing in things]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
