"""`starting_offsets`: returns a value for Spark's option `startingOffsets`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import Any, Final

from eo_listener.commit.tracking.routing import SERVERS_OPTION
from eo_listener.errors import SettingsError
from eo_listener.foreach_batch.starting_offsets.origins import checkpoint_origin, ledger_origin
from eo_listener.foreach_batch.starting_offsets.resolve import Origin, Policy, Recreated, choose
from eo_listener.foreach_batch.starting_offsets.source_cluster import SourceCluster, Subscription
from eo_listener.kafka.group_stores import librdkafka_properties
from eo_listener.kafka.source_logs import SourceLogs
from eo_listener.model.argument_checks import choice
from eo_listener.model.offsets_json import write_offsets
from eo_listener.model.protocols import Sink
from eo_listener.offsets import TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.location import has_scheme, shown
from eo_listener.spark.jvm.calls import JvmShimClient

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_FOREVER: Final = 2**63  # milliseconds: Kafka's times are Java longs


def starting_offsets(
    *,
    ledger: Sink | Sequence[Sink] | None = None,
    query: str | None = None,
    group: str | None = None,
    checkpoint: str | None = None,
    timestamp: int | dt.datetime | None = None,
    topics: str | Iterable[str] | None = None,
    bootstrap_servers: str | None = None,
    options: Mapping[str, str] = _NONE,
    missing: str = "earliest",
    out_of_range: str = "fail",
    recreated: str = "fail",
    checkpoint_location: str | None = None,
) -> str:
    """Return Spark's `startingOffsets` JSON for a query that is to begin at an origin.

    Give exactly one origin: `ledger`, a sink or all sinks of a query, with the query's name in the
    ledger as `query`; a consumer `group`; the `checkpoint` of another query, for its newest
    committed batch; or a `timestamp`, a time zone aware datetime or milliseconds since the epoch.

    `options` are the reader options of the new query (`kafka.*`, `subscribe`, `subscribePattern`,
    `assign`); `bootstrap_servers` and `topics` replace the servers and the topics in these options.
    Without topics in any of these, the function uses the origin's topics. The result contains all
    partitions of the topics, as Spark requires.

    `missing` decides about a partition without a position in the origin, `out_of_range` about a
    position outside the log: each is "earliest", "latest" or "fail". A partition without records
    since `timestamp` starts at the end of its log.

    The function recognises a recreated topic by its id, which only a ledger holds, or by missing
    partitions. `recreated="fail"` refuses such a topic; "earliest" reads such a topic from its
    beginning while other topics continue, and then `exactly_once` needs `on_recreated="restart"`.

    Name the new query's `checkpoint_location`: the function refuses an existing checkpoint, because
    Spark would continue from it and ignore `startingOffsets`. Without a Spark session in this
    process the location needs a scheme (`file:///...`).

    Raises SettingsError, GuardError (see `resolve.choose`), KafkaError, StorageError,
    CheckpointError, SinkError, and JvmError for a default file system that Spark cannot load.
    """
    _require_single(ledger, group, checkpoint, timestamp)
    rules = _rules(missing, out_of_range, recreated)
    reader_options = _options(options, bootstrap_servers)
    subscription = Subscription.parse(topics, reader_options)
    timestamp_ms = None if timestamp is None else _milliseconds(timestamp, subscription)
    _refuse_existing(checkpoint_location)
    with closing(_cluster(reader_options)) as cluster:
        partitions = cluster.partitions(subscription)
        if ledger is not None:
            origin = ledger_origin(ledger, query)
        elif checkpoint is not None:
            origin = checkpoint_origin(checkpoint)
        elif timestamp_ms is not None:
            times = dict.fromkeys(partitions, timestamp_ms)
            origin = cluster.times_origin(f"the time {timestamp_ms} ms", times)
        else:
            origin = cluster.group_origin(str(group), partitions)
        return write_offsets(_starts(cluster, subscription, partitions, origin, rules))


def _require_single(*origins: object) -> None:
    if sum(origin is not None for origin in origins) != 1:
        raise SettingsError(
            "starting_offsets needs exactly one place to start from",
            fix="Give exactly one of ledger=, group=, checkpoint= and timestamp=",
        )


def _rules(missing: str, out_of_range: str, recreated: str) -> dict[str, Any]:
    return {
        "missing": choice(Policy, "missing", missing),
        "out_of_range": choice(Policy, "out_of_range", out_of_range),
        "recreated": choice(Recreated, "recreated", recreated),
    }


def _cluster(options: Mapping[str, str]) -> SourceCluster:
    """Return the cluster that a reader with these options reads.

    Raises SettingsError if the options name no cluster, or one that only Spark's own client can
    reach.
    """
    shim_client = JvmShimClient()
    cluster = SourceLogs(shim_client).cluster(options)
    cluster.require_librdkafka(f"cannot list the partitions at {cluster} from Python")
    return SourceCluster(librdkafka_properties(cluster, shim_client))


def _starts(
    cluster: SourceCluster,
    subscription: Subscription | None,
    partitions: tuple[TopicPartition, ...],
    origin: Origin,
    rules: Mapping[str, Any],
) -> dict[TopicPartition, int]:
    assigned = None if subscription is None else subscription.assigned
    if assigned is not None:
        origin = origin.where(lambda tp: tp in assigned)
    named = {tp.topic for tp in (origin.offsets if subscription is None else partitions)}
    read = tuple(tp for tp in partitions if tp.topic in named)
    return choose(origin.where(lambda tp: tp.topic in named), read, cluster.snapshot(read), **rules)


def _options(options: Mapping[str, str], servers: str | None) -> dict[str, str]:
    """Return the reader's options as Spark keeps them, with keys in lower case."""
    reader_options = {str(key).lower(): str(value) for key, value in options.items()}
    if servers is not None:
        reader_options[SERVERS_OPTION] = servers
    if not reader_options.get(SERVERS_OPTION):
        raise SettingsError(
            "the bootstrap servers are not known",
            fix="Give bootstrap_servers='host:port', or the reader's options=",
        )
    return reader_options


def _milliseconds(timestamp: object, subscription: Subscription | None) -> int:
    if subscription is None:
        raise SettingsError(
            "a timestamp alone does not name the topics to read", fix="Name them in topics="
        )
    milliseconds = timestamp
    if isinstance(timestamp, dt.datetime):
        if timestamp.tzinfo is None:
            raise SettingsError(
                f"the timestamp {timestamp} has no time zone, so it is ambiguous",
                fix="Give a time zone, datetime(..., tzinfo=timezone.utc), or milliseconds "
                "since the epoch",
            )
        milliseconds = (timestamp - _EPOCH) // dt.timedelta(milliseconds=1)
    # Below zero are special values, not times: -1 is the end of the log, -2 its beginning.
    if type(milliseconds) is not int or not 0 <= milliseconds < _FOREVER:
        raise SettingsError(
            f"timestamp must be a time since 1970, got {timestamp!r}",
            fix="Give a datetime with a time zone, or milliseconds since the epoch; for all "
            'records, startingOffsets="earliest"',
        )
    return milliseconds


def _refuse_existing(location: str | None) -> None:
    if location is not None and Checkpoint(_where(location)).exists():
        raise SettingsError(
            f"a checkpoint already exists at {shown(location)}",
            cause="Spark continues from it and ignores startingOffsets",
            fix="Give the query another checkpointLocation, or move that folder away; "
            "without startingOffsets the query continues where it stopped",
        )


def _where(location: str) -> str:
    """Return `location` as Spark resolves it.

    A location without a scheme is in Hadoop's default file system.
    """
    if has_scheme(location):
        return location
    from eo_listener.spark.jvm.calls import qualified  # noqa: PLC0415  # py4j is not in every client of Spark Connect

    resolved = qualified(location)
    if resolved is None:
        raise SettingsError(
            f"cannot tell which file system {location} is on",
            cause="Spark looks up a location without a scheme in fs.defaultFS, and this "
            "process has no Spark session to read that setting from",
            fix=f"Give the full URI: file://{location}, hdfs://..., s3a://...; or start the "
            "session first",
        )
    return resolved
