"""`starting_offsets`: check what is asked for, read where it stood, and where Kafka stands."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from eo_listener.checkpoint import Checkpoint
from eo_listener.errors import SettingsError
from eo_listener.protocols import Sink
from eo_listener.routing import SERVERS_OPTION
from eo_listener.starting.choice import Policy, choose, text
from eo_listener.starting.cluster import SourceCluster, Wanted
from eo_listener.starting.origins import of_checkpoint, of_ledger

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_TOPICS: Final = "subscribe"
_PATTERN: Final = "subscribepattern"


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
    checkpoint_location: str | None = None,
) -> str:
    """Return Spark's `startingOffsets` JSON for a query that is to begin where something stood.

    Exactly one origin: `ledger`, a sink or all sinks of a query, with the name `query` that the
    ledger is kept under; a consumer `group`; the `checkpoint` of another query, its newest
    committed batch; or a `timestamp`, a time zone aware datetime or milliseconds since the epoch.

    `options` are the reader options of the new query (`kafka.*`, `subscribe`, `subscribePattern`);
    `bootstrap_servers` and `topics` stand for two of them. Without topics those of the origin are
    taken. All their partitions are in the answer, as Spark wants it.

    `missing` (a partition for which the origin has no position) and `out_of_range` (one that is no
    longer in the log) are "earliest", "latest" or "fail". A partition without records since
    `timestamp` begins at its end.

    Name the new query's `checkpoint_location`: where a checkpoint is already, Spark goes on from
    it and ignores `startingOffsets`, so that is refused. Raises SettingsError, GuardError (see
    `choice.choose`), KafkaError, StorageError, CheckpointError and SinkError.
    """
    _require_one(ledger, group, checkpoint, timestamp)
    rules = {
        "missing": _policy("missing", missing),
        "out_of_range": _policy("out_of_range", out_of_range),
    }
    given = _options(options, bootstrap_servers)
    wanted = _wanted(topics, given)
    when = None if timestamp is None else _milliseconds(timestamp, wanted)
    if checkpoint_location is not None:
        _refuse_existing(checkpoint_location)
    cluster = SourceCluster(given)
    try:
        there = cluster.partitions(wanted)
        if ledger is not None:
            origin = of_ledger(ledger, query)
        elif checkpoint is not None:
            origin = of_checkpoint(checkpoint)
        elif when is not None:
            origin = cluster.of_time(when, there)
        else:
            origin = cluster.of_group(str(group), there)
        named = {tp.topic for tp in (origin.offsets if wanted is None else there)}
        read = tuple(tp for tp in there if tp.topic in named)
        return text(choose(origin.of(named), read, cluster.look(read), **rules))
    finally:
        cluster.close()


def _require_one(*origins: object) -> None:
    if sum(one is not None for one in origins) != 1:
        raise SettingsError(
            "it is not clear where to begin",
            fix="Give exactly one of ledger=, group=, checkpoint= and timestamp=",
        )


def _policy(name: str, given: str) -> Policy:
    try:
        return Policy(given)
    except ValueError:
        raise SettingsError(
            f"{name} is {given!r}, which is not known",
            fix=f"Give one of {', '.join(repr(one.value) for one in Policy)}",
        ) from None


def _options(options: Mapping[str, str], servers: str | None) -> dict[str, str]:
    """The reader's options as Spark keeps them, keys in lower case."""
    given = {str(key).lower(): str(value) for key, value in options.items()}
    if servers is not None:
        given[SERVERS_OPTION] = servers
    if not given.get(SERVERS_OPTION):
        raise SettingsError(
            "the bootstrap servers are not known",
            fix="Give bootstrap_servers='host:port', or the reader's options=",
        )
    return given


def _wanted(topics: str | Iterable[str] | None, given: Mapping[str, str]) -> Wanted | None:
    """Which topics the new query reads; None where nobody says."""
    if topics is None and _PATTERN in given:
        try:
            return Wanted(pattern=re.compile(given[_PATTERN]))
        except re.error:
            raise SettingsError(
                f"{_PATTERN} is {given[_PATTERN]!r}, which Python does not take for a pattern",
                fix="Name the topics in topics=",
            ) from None
    if topics is None:
        topics = given.get(_TOPICS)
    if topics is None:
        return None
    names = topics.split(",") if isinstance(topics, str) else topics
    found = frozenset(name.strip() for name in names)
    if not found or "" in found:
        raise SettingsError(
            f"topics is {topics!r}, which names none", fix="Name a topic, or several"
        )
    return Wanted(topics=found)


def _milliseconds(timestamp: object, wanted: Wanted | None) -> int:
    if wanted is None:
        raise SettingsError(
            "a timestamp alone does not say which topics to read", fix="Name them in topics="
        )
    if isinstance(timestamp, dt.datetime):
        if timestamp.tzinfo is None:
            raise SettingsError(
                f"the timestamp {timestamp} has no time zone, so it may mean several moments",
                fix="Give one: datetime(..., tzinfo=timezone.utc), or milliseconds since the epoch",
            )
        return int(timestamp.timestamp() * 1000)
    if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:
        raise SettingsError(
            f"timestamp is {timestamp!r}, which is no time",
            fix="Give a datetime with a time zone, or milliseconds since the epoch",
        )
    return timestamp


def _refuse_existing(location: str) -> None:
    if Checkpoint(location).exists():
        raise SettingsError(
            f"there is a checkpoint at {location} already",
            cause="Spark goes on from it and ignores startingOffsets",
            fix="Give the query another checkpointLocation, or move that folder away; without "
            "startingOffsets it continues where it was",
        )
