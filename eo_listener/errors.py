"""All errors of eo_listener, and the form of their texts.

EoListenerError
├── SettingsError              an argument or option cannot be used         exit 2
│   ├── JvmAlreadyRunningError     valid, but the JVM is already running
│   └── MissingExtraError          a package is not installed; an ImportError too
├── FormatError                text from another program has the wrong form exit 3
├── GuardError                 a batch must not be applied                  exit 1
│   ├── GapError                   offsets before it were never applied, or are lost
│   ├── OverlapError               a part of it was already applied
│   ├── RegressionError            it starts or ends below what was applied
│   ├── NotInLedgerError           partitions read before are not in the ledger under this name
│   ├── PartialReplayError         some partitions were already applied, others not
│   ├── TopicRecreatedError        the ledger belongs to an older topic of the same name
│   ├── NewCheckpointError         sources other than Kafka were read under another checkpoint
│   ├── PartitionVanishedError     a partition in the ledger is no longer read
│   ├── ForeignWriterError         another driver has written to the ledger
│   ├── TargetRecordsError         a target holds rows twice, or has lost some
│   └── UnfinishedBatchError       it does not continue the unfinished batch before it
├── InUseError                 a group or ledger to repair is in use        exit 1
├── PoisonRowError             the store or the transform refuses a row     exit 1
└── UnavailableError           something required is not available          exit 3
    ├── JavaError                  no Java, or an unsupported version
    ├── JvmError                   a call into Spark's JVM failed
    ├── StorageError               the storage of a checkpoint could not be read
    ├── SinkError                  a store did not apply the batch
    │   ├── RetriableSinkError         a conflict; repeating the batch solves it
    │   ├── SinkLockedError            somebody holds a lock for too long
    │   └── OutcomeUnknownError        the answer to COMMIT was lost
    └── KafkaError                 Kafka did not answer, or refused

docs/reference/runbook.md has a section for each class, made from the docstring of the class: the
meaning, `Cause:`, `Fix:` and, for each `Type:`, a command. For a class without commands, the
section shows the commands of its base class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

from eo_listener.offsets import OffsetRange, TopicPartition

_Kind = TypeVar("_Kind", bound="EoListenerError")
_SHOWN = 5  # partitions named in a line


class ExitCode(IntEnum):
    """The exit status of a command; a number means the same for every command and error."""

    FINE = 0
    FOUND = 1
    """The command found what it looks for, or refused to continue because of what it found."""
    WRONG_USE = 2
    """The command's arguments cannot be used, or name something that does not exist."""
    UNREACHABLE = 3
    """The command could not reach, read or write something, or lacks a permission."""
    FAULT = 70
    """EX_SOFTWARE: a fault in eo_listener."""
    STOPPED = 130
    """The exit status that a shell reports for a program ended by SIGINT."""
    READER_GONE = 141
    """The exit status for a program ended by SIGPIPE: `eo-listener status ... | head -1`."""


class EoListenerError(Exception):
    """Base class of all errors that eo_listener raises.

    `problem` says what happened, `cause` is the most likely reason, `fix` the remedy. `str()` joins
    them into one line: "problem. Cause: ... Fix: ...". None of these texts contains a secret.
    """

    exit_code = ExitCode.UNREACHABLE

    def __init__(self, problem: str, *, cause: str | None = None, fix: str | None = None) -> None:
        self.problem = problem
        self.cause = cause
        self.fix = fix
        super().__init__(problem, cause, fix)

    def as_kind(self, kind: type[_Kind], *, label: str = "", fix: str | None = None) -> _Kind:
        """Return this error as an error of `kind`; `fix`, if given, replaces the fix.

        If `label`, the name of a sink or ledger, is given, the problem begins with it.
        """
        problem = f"{label}: {self.problem}" if label else self.problem
        return kind(problem, cause=self.cause, fix=fix or self.fix)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep all attributes when the error is copied or sent to another process."""
        return type(self).__new__, (type(self), *self.args), self.__dict__

    def __str__(self) -> str:
        labelled = (("", self.problem), ("Cause: ", self.cause), ("Fix: ", self.fix))
        return ". ".join(f"{label}{part.rstrip('.')}" for label, part in labelled if part)


class SettingsError(EoListenerError):
    """An argument, an option or a setting cannot be used.

    Fix: correct the setting that the text names. For a source's options, run preflight, which
    reports everything else that is wrong.
    Type: eo-listener preflight -b SERVERS -g GROUP
    """

    exit_code = ExitCode.WRONG_USE


class JvmAlreadyRunningError(SettingsError):
    """A setting is valid, but comes too late: the JVM that should read it is already running.

    Cause: the process has already started a Spark session, or spark-submit has started the JVM.
    Fix: call `configure` before the first session, or give the jar to spark-submit with `--jars`.
    Type: eo-listener jar
    """


class MissingExtraError(SettingsError, ImportError):
    """A package of an optional extra is not installed; `name` is the package, as in ImportError.

    Fix: install eo-listener with the extra that the text names, on the driver's machine. In a
    clone, run this command with that extra.
    Type: make wheel && pip install "$(ls dist/*.whl)[spark,postgres]"
    """

    def __init__(self, feature: str, *, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs {package}, which is not installed", fix=install(extra))
        self.name = package


class FormatError(EoListenerError):
    """Text that another program wrote does not have the expected form.

    Cause: the text is damaged or was edited, or a newer Spark, broker or eo_listener wrote it.
    Fix: use the newer release here too, or restore the file. eo_listener uses no part of this text.
    Type: eo-listener --version
    Type: eo-listener checkpoint show CHECKPOINT
    """


class GuardError(EoListenerError):
    """A batch must not be applied, and no part of it was applied.

    `ranges` has the offsets in question, by partition.

    Fix: find out what is lost or doubled before you do what the text says.
    Type: eo-listener audit --checkpoint CHECKPOINT -b SERVERS --ledger LEDGER
    Type: eo-listener ledger show LEDGER --query QUERY
    """

    exit_code = ExitCode.FOUND

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
    """Offsets before the batch were never applied, or are lost. `ranges`: these offsets."""


class OverlapError(GuardError):
    """Only a part of the batch was already applied. `ranges`: the repeated offsets."""


class RegressionError(GuardError):
    """The batch starts or ends below the applied offsets. `ranges`: the offsets between the two."""


class NotInLedgerError(GuardError):
    """Earlier batches have read partitions of this batch for which the ledger has no head.

    `ranges`: the offsets before the batch, or those of a head under another name.
    """


class PartialReplayError(GuardError):
    """Only some partitions of the batch were already applied. `ranges`: the applied offsets."""


class TopicRecreatedError(GuardError):
    """The topic of the ledger was deleted and recreated. `ranges`: the batch's offsets."""


class NewCheckpointError(GuardError):
    """The sink has batches of another checkpoint, of a query with sources other than Kafka.

    The numbers of these batches mean nothing in this checkpoint. `ranges`: the batch's number.
    """


class PartitionVanishedError(GuardError):
    """The query no longer reads a partition of the ledger, or Kafka no longer has a partition.

    `ranges`: an empty range at the last offset in the ledger, or the batch's offsets.
    """


class ForeignWriterError(GuardError):
    """Another driver, a successor or a zombie, wrote to the ledger after this driver had read it.

    `ranges`: the batch's offsets. The compare-and-set inside the sink's transaction raises it.

    Cause: the query runs twice, or a driver that seemed dead still runs.
    Fix: stop one of the drivers, then restart the query. The sink has each record once, even if
    both drivers have read it.
    """


class TargetRecordsError(GuardError):
    """A target holds rows twice, or has lost rows; a sink without transactions cannot undo this.

    `ranges`: the offsets of the target's partitions that contain these rows.

    Cause: records were lost with a broker, the retention is too short, or other programs write to
    the target.
    Fix: do what the text says; or continue once, without a repair, with `on_repeated="accept"`.
    """


class UnfinishedBatchError(GuardError):
    """A sink without transactions has an unfinished batch, and this batch does not continue it.

    `ranges`: the source's offsets in the unfinished batch.

    Cause: the driver died in that batch, and the query was then started in a different way.
    Fix: start the query as before, until the unfinished batch is applied.
    """


class InUseError(EoListenerError):
    """The group or ledger to be repaired is in use, or has changed since the command read it.

    The repair changed nothing.

    Cause: the query runs, or another consumer is a member of the group.
    Fix: stop the query or the consumer, then run the command again.
    Type: eo-listener status GROUP -b SERVERS --watch 5
    """

    exit_code = ExitCode.FOUND


class PoisonRowError(EoListenerError):
    """The transform has marked a row, or the store refuses its values; nothing was written.

    `partition` and `offset` are the row's origin, or None if the rows do not carry their origin.

    Cause: producers changed their format, or somebody changed the table's columns; the text names
    the row.
    Fix: filter such rows out in the transform, or collect them in a separate table with
    `dead_letters=`.
    Type: eo-listener ledger show LEDGER --query QUERY
    """

    exit_code = ExitCode.FOUND

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
    """Something that eo_listener needs is not available at the moment.

    Fix: make it available again. A query continues from its checkpoint and loses nothing.
    Type: eo-listener preflight -b SERVERS
    """


class JavaError(UnavailableError):
    """No Java was found, or only a Java of an unsupported version.

    Fix: install a JDK from 17 to 22, or point JAVA_HOME at one.
    Type: java -version
    Type: eo-listener preflight
    """


class JvmError(UnavailableError):
    """A call into Spark's JVM failed, or its answer has an unknown form.

    Cause: Spark has ended, or the jar and this package have different versions.
    Fix: give Spark the jar of this package; if the driver has ended, read the driver's log.
    Type: eo-listener jar
    Type: eo-listener preflight
    """


class StorageError(UnavailableError):
    """The storage of a checkpoint could not be listed or read.

    Cause: wrong credentials, a wrong address, or unavailable storage. The query itself may
    continue.
    Fix: give the storage's options with `--storage key=value`, and check that it can be read.
    Type: eo-listener checkpoint show CHECKPOINT
    """


class SinkError(UnavailableError):
    """The store did not apply the batch, and nothing of it was written.

    Cause: the store is unavailable or full, a right is missing, or the table has changed.
    Fix: do what the text says, then restart the query: it continues from the ledger.
    Type: eo-listener ledger show LEDGER --query QUERY
    """


class RetriableSinkError(SinkError):
    """The store reports a conflict (serialization, deadlock); repeating the whole batch solves it.

    Cause: two writers wrote at the same time, the server is restarting, or a failover is in
    progress.
    Fix: nothing if the conflict is temporary: `exactly_once` retries the batch for `retry_timeout`.
    If the query failed, restart it as soon as the store answers.
    """

    #: True if rows that the executors kept for the batch are lost, so that Spark must compute them
    #: again.
    lost_rows = False


class SinkLockedError(SinkError):
    """A lock in the store was held for longer than the time-out; the text names its holder.

    Cause: a driver was suspended in its transaction, a migration runs, or somebody left a session
    open.
    Fix: wait until the lock is released, or end its holder as the text says; then restart the
    query.
    """


class OutcomeUnknownError(SinkError):
    """The answer to COMMIT was lost: only the ledger shows whether the batch was applied.

    Cause: the server or the network to it went down.
    Fix: restart the query. It reads the ledger first, and does not repeat a batch that the ledger
    has.
    """


class KafkaError(UnavailableError):
    """Kafka did not answer in time, or refused the request.

    `code` is the name of Kafka's own error (`"GROUP_AUTHORIZATION_FAILED"`).

    Cause: a broker is unavailable, a right is missing, or the address is wrong: see `code`.
    Fix: do what the text says; preflight names each missing right, with the command that grants it.
    Type: eo-listener preflight -b SERVERS -g GROUP
    """

    def __init__(
        self, problem: str, *, code: str, cause: str | None = None, fix: str | None = None
    ) -> None:
        self.code = code
        super().__init__(problem, cause=cause, fix=fix)


def install(extra: str) -> str:
    """Return the fix for a missing extra.

    The fix has no pip command, because there is no release yet.
    """
    return f"Install eo-listener[{extra}], as its README shows"


def few(things: Iterable[object], shown: int = _SHOWN) -> str:
    """Return the names of the first `shown` things, and the number of the others."""
    names = [str(thing) for thing in things]
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def length(seconds: float | None) -> str:
    """Return a duration in a suitable unit, or `-` if the duration is unknown."""
    if seconds is None:
        return "-"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def counted(count: int, noun: str) -> str:
    """Return number and noun: `1 group`, `2 groups`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
