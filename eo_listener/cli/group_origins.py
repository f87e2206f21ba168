"""Reads the origin of offsets for `eo-listener group seed` and `rewind`; defines its options."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final
from uuid import uuid4

import typer

from eo_listener.cli import completion
from eo_listener.cli.checkpoint import open_checkpoint
from eo_listener.cli.options import Storage, require_names, utc
from eo_listener.cli.spark_options import SparkConf, spark_for, spark_settings
from eo_listener.errors import FormatError, PartitionVanishedError, SettingsError, StorageError, few
from eo_listener.foreach_batch.starting_offsets.origins import (
    batch_origin,
    heads_origin,
    newest_batch,
)
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.foreach_batch.starting_offsets.source_cluster import SourceCluster
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.ledger import Head
from eo_listener.model.offsets_file import ExportedGroup, read_exported
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_address import FORMS, LedgerAddress
from eo_listener.sinks.ledger_repair import choose_key
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.errors import Unreadable
from eo_listener.spark.checkpoint.log_files import BatchOffsets
from eo_listener.spark.checkpoint.log_files import parse_offsets as read_strictly

Topics = Annotated[
    list[str] | None, typer.Option("-t", "--topic", help="Only this topic; repeatable.")
]

_MOST_BYTES: Final = 256 << 20
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_MILLISECONDS: Final = (10**11, 10**14)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True, kw_only=True, repr=False)
class OriginOptions:
    """The options that name the origin of the offsets, and limit the topics."""

    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--from-checkpoint", help="The end of the newest committed batch of this checkpoint."
        ),
    ] = None
    storage: Storage = None
    ledger: Annotated[
        str | None,
        typer.Option(
            "--from-ledger",
            autocompletion=completion.ledger,
            help="The offsets in a sink's ledger, up to which the sink has applied the query's "
            f"batches. Addresses: {FORMS}.",
        ),
    ] = None
    schema: Annotated[str | None, typer.Option(help="With --from-ledger: PostgreSQL's schema.")] = (
        None
    )
    spark_conf: SparkConf = None
    sink: Annotated[
        str | None, typer.Option(help="With --from-ledger: the sink, as `ledger show` prints it.")
    ] = None
    query: Annotated[
        str | None, typer.Option(help="With --from-ledger: the name of the query.")
    ] = None
    other_group: Annotated[
        str | None, typer.Option("--from-group", help="The offsets of this group.")
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            "--from-time",
            help="The first records at this time or later: 2013-01-01T05:00:00Z, or milliseconds "
            "since 1970.",
        ),
    ] = None
    offsets: Annotated[
        str | None,
        typer.Option("--from-offsets", help='Offsets as Spark writes them: {"topic":{"0":5}}.'),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option("--from-file", help="A file from `group export`, or from Kafka's own tool."),
    ] = None
    topics: Topics = None

    def address(self) -> LedgerAddress | None:
        """Return the address in --from-ledger, or None if that option is not given.

        Raises SettingsError, also for a ledger's options without --from-ledger.
        """
        if self.ledger is not None:
            return LedgerAddress.parse(self.ledger)
        of_ledger = (self.schema, self.sink, self.query, self.spark_conf or None)
        if any(option is not None for option in of_ledger):
            raise SettingsError(
                "--schema, --spark-conf, --sink and --query are for --from-ledger",
                fix="Add --from-ledger, or remove them",
            )
        return None

    def read_ledger(
        self, address: LedgerAddress, properties: Mapping[str, str]
    ) -> tuple[Origin, Head, str]:
        """Return a query's applied position in the ledger, its newest head, and its name."""
        with (
            closing(spark_for([address], spark_settings(self.spark_conf or ()))) as spark,
            closing(
                address.open(properties, schema=self.schema, spark=spark, query=self.query)
            ) as reader,
        ):
            ledgers, label = reader.ledgers(), reader.label
        with_heads = {
            key: stored.heads
            for key, stored in ledgers.items()
            if stored.heads or key.query == self.query
        }
        every = with_heads or {key: stored.heads for key, stored in ledgers.items()}
        key = choose_key(every, label, self.sink, self.query)
        heads, back = ledgers[key].heads, ledgers[key].rollback
        if back is not None and not heads:
            raise SettingsError(
                f"{label} no longer has offsets of query {key.query!r}",
                cause=back.cause,
                fix=back.fix
                or "Take offsets from a checkpoint or a time: --from-checkpoint or --from-time",
            )
        origin = heads_origin(label, key.query, heads)
        if back is not None:
            undo = f"; {back.fix} undoes it" if back.fix else ""
            rolled_back = f"{origin.label}, which was rolled back ({back.cause}{undo})"
            origin = replace(origin, label=rolled_back)
        return origin, max(heads.values(), key=lambda head: head.batch_id), key.query


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedOrigin:
    """The origin that the options of a command name.

    `by_time` is True if the record times in a file determine the offsets. `group` is the group to
    change, which also selects the entry in a file with several groups.
    """

    group: str
    command: str
    options: OriginOptions
    by_time: bool = False

    def __post_init__(self) -> None:
        options = self.options
        if options.address() is not None:
            spark_settings(options.spark_conf or ())
        require_names("topic", options.topics or ())
        origins = (
            options.checkpoint,
            options.ledger,
            options.other_group,
            options.time,
            options.offsets,
            options.file,
        )
        if sum(origin is not None for origin in origins) != 1:
            raise SettingsError(
                f"{self.command} needs exactly one origin of offsets",
                fix="Give exactly one of --from-checkpoint, --from-ledger, --from-group, "
                "--from-time, --from-offsets and --from-file",
            )
        if options.other_group is not None:
            require_names("group", [options.other_group])
        if options.other_group == self.group:
            raise SettingsError(
                f"group {self.group} is both the origin and the group to change",
                fix="Name another group",
            )

    def read(
        self,
        cluster: SourceCluster,
        held_partitions: Collection[TopicPartition],
        properties: Mapping[str, str],
    ) -> tuple[Origin, CommitMetadata]:
        """Read the origin; return it, and the author for the metadata of the commits.

        `held_partitions` are the partitions for which the group to change holds offsets. If the
        origin is a time and no topic is named, the time applies to these partitions. `properties`
        are the properties of the cluster's client, for a ledger in a topic. Raises SettingsError,
        KafkaError, StorageError, SinkError, CheckpointError and FormatError.
        """
        author = CommitMetadata(
            name="", query_id="", run_id=uuid4().hex[:8], batch_id=-1, command=self.command
        )
        options = self.options
        if options.checkpoint is not None:
            checkpoint = open_checkpoint(options.checkpoint, options.storage)
            batch = newest_batch(checkpoint, str(checkpoint.location))  # once: a query may continue
            origin = _end_of(checkpoint, batch)
            author = replace(author, query_id=_short(checkpoint.query_id()), batch_id=batch.batch)
        elif (address := options.address()) is not None:
            origin, head, query = options.read_ledger(address, properties)
            author = replace(
                author, name=query, query_id=_short(head.query_id), batch_id=head.batch_id
            )
        elif options.other_group is not None:
            origin = cluster.group_origin(options.other_group, cluster.partitions(None))
        elif options.time is not None:
            at = parse_time(options.time)
            times = dict.fromkeys(self._partitions(cluster, held_partitions), at)
            origin = cluster.times_origin(f"the time {utc(at)} ({at} ms)", times)
        elif options.offsets is not None:
            origin = Origin(label="--from-offsets", offsets=parse_offsets(options.offsets))
        else:
            origin = self._of_file(cluster)
        absent = sorted(self._topics - {tp.topic for tp in origin.offsets})
        if absent:
            raise SettingsError(
                f"{origin.label} has no offsets of the topics {few(absent)}", fix="Check --topic"
            )
        return origin.where(self._meant), author

    @property
    def _topics(self) -> frozenset[str]:
        return frozenset(self.options.topics or ())

    def _meant(self, tp: TopicPartition) -> bool:
        return not self._topics or tp.topic in self._topics

    def _partitions(
        self, cluster: SourceCluster, held_partitions: Collection[TopicPartition]
    ) -> tuple[TopicPartition, ...]:
        topics = self._topics or frozenset(tp.topic for tp in held_partitions)
        if not topics:
            raise SettingsError(
                "a time alone does not name the topics, and the group holds none",
                fix="Name the topics: --topic TOPIC",
            )
        return tuple(tp for tp in cluster.partitions(None) if tp.topic in topics)

    def _of_file(self, cluster: SourceCluster) -> Origin:
        file = self.options.file or Path()
        exported = _of_group(read_exported(_text(file)), self.group, file)
        of_other = (
            f" (group {exported.group!r})" if exported.group not in {None, self.group} else ""
        )
        if not self.by_time:
            return Origin(
                label=f"the file {file}{of_other}",
                offsets={entry.partition: entry.offset for entry in exported.partitions},
                topic_ids={
                    entry.partition: entry.topic_id
                    for entry in exported.partitions
                    if entry.topic_id is not None
                },
            )
        meant = [entry for entry in exported.partitions if self._meant(entry.partition)]
        unknown = [entry.partition for entry in meant if entry.timestamp is None]
        if unknown:
            raise SettingsError(
                f"the file {file} has no times for {few(unknown)}",
                cause="it is CSV, was exported without --times, or the log was empty there",
                fix="Export it again with eo-listener group export --format json --times, or "
                "name the other topics with --topic",
            )
        times = {entry.partition: entry.timestamp for entry in meant if entry.timestamp is not None}
        origin = cluster.times_origin(f"the times in {file}{of_other}", times)
        gone = [entry for entry in meant if entry.partition not in origin.offsets]
        if gone:
            names = few(entry.partition for entry in gone)
            raise PartitionVanishedError(
                f"Kafka lacks partitions of {origin.label}: {names}",
                ranges={entry.partition: OffsetRange(entry.offset, entry.offset) for entry in gone},
                cause="the copy has other topic names or fewer partitions, or this is another "
                "cluster",
                fix="Check the bootstrap servers, or name the other topics with --topic",
            )
        return origin


def _end_of(checkpoint: Checkpoint, batch: BatchOffsets) -> Origin:
    """Return a batch's end offsets. Raises SettingsError if the batch has no Kafka offsets."""
    where = f"checkpoint {checkpoint.location}, query id {checkpoint.query_id()}"
    origin = batch_origin(where, batch)
    if not origin.offsets:
        raise SettingsError(
            f"{origin.label} has no Kafka offsets",
            cause="the query reads other sources only, or has not read its topics yet",
            fix="Run eo-listener checkpoint show CHECKPOINT to see its contents",
        )
    return origin


def _short(query_id: str) -> str:
    return CommitMetadata.for_batch(name="", query_id=query_id, run_id="", batch_id=0).query_id


def parse_time(text: str) -> int:
    """Parse a time; return milliseconds since 1970.

    Raises SettingsError, also for a time without a zone.

    The function also refuses a number that may be a year, or a time in seconds or microseconds: as
    milliseconds, such a number would select the start or the end of the log.
    """
    if _NUMBER.fullmatch(text):
        if int(text) and not _MILLISECONDS[0] <= int(text) < _MILLISECONDS[1]:
            raise SettingsError(
                f"a number in --from-time must be milliseconds from 1973 to 5138, got {text}",
                cause="it may be a year, or a time in seconds or microseconds",
                fix="Write 2013-01-01T05:00:00Z, 1357016400000, or 0 for the beginning",
            )
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.timestamp() < 0:
        raise SettingsError(
            f"--from-time must be a time since 1970 with its zone, got {text!r}",
            fix="Write 2013-01-01T05:00:00Z, 2013-01-01T06:00:00+01:00, or milliseconds",
        )
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Parse the offsets of --from-offsets. Raises SettingsError."""
    try:
        offsets = read_strictly(text)
    except Unreadable:
        offsets = None
    if not offsets:
        raise SettingsError(
            f"--from-offsets must be offsets as Spark writes them, got {text[:100]!r}",
            fix='Write \'{"topic":{"0":5,"1":7}}\'; -1 and -2 are not offsets',
        )
    return dict(offsets)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise StorageError(
            f"the file {file} cannot be read: {error.strerror}",
            fix="Check its path and permissions",
        ) from None
    if len(content) > _MOST_BYTES:
        raise FormatError(
            f"the file {file} is larger than {_MOST_BYTES >> 20} MB",
            cause="it is the wrong file",
            fix="Name a file that `eo-listener group export` wrote",
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise FormatError(
            f"the file {file} is not UTF-8 text",
            cause="it is the wrong file, or was changed in transit",
            fix="Name a file that `eo-listener group export` wrote",
        ) from None


def _of_group(groups: Sequence[ExportedGroup], group: str, file: Path) -> ExportedGroup:
    """Return a file's only entry, whatever its name is, or else its entry for `group`."""
    if len(groups) == 1:
        return groups[0]
    for exported in groups:
        if exported.group == group:
            return exported
    raise SettingsError(
        f"the file {file} has {len(groups)} groups, but not {group}",
        cause=f"it has {few(str(exported.group) for exported in groups)}",
        fix="Write a file of one group with eo-listener group export GROUP",
    )
