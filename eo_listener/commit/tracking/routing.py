"""Finds the cluster and the consumer groups for the offsets of a progress event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from eo_listener.client_config.cluster import ClientAccess, Cluster, translate
from eo_listener.client_config.validation import SERVERS, require_property
from eo_listener.commit.groups.group_offsets import GroupOffsets, combine, positions_by_topic
from eo_listener.commit.tracking.group_names import GroupNames, NotCommitted
from eo_listener.errors import SettingsError
from eo_listener.events import PartitionsShared, SourceIgnored
from eo_listener.model.commit_metadata import CommitMetadata, short_id
from eo_listener.model.progress import Progress, SourceProgress
from eo_listener.offsets import Offsets

SERVERS_OPTION = "kafka.bootstrap.servers"
TOKENS = "spark.kafka.clusters"  # the shim adds it to the options if Spark has delegation tokens

_KAFKA = "kafka."


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Why the options of a run could not be read, and what to do about it, if that is known."""

    cause: str
    fix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedOffsets:
    """The offsets of one progress event by source and group, and the sources that are left out.

    `sources` has, by the index of each source with a group, one `GroupOffsets` for each of the
    source's groups.
    """

    query: str
    sources: Mapping[int, tuple[GroupOffsets, ...]]
    ignored: tuple[SourceIgnored, ...] = ()

    def only(self, indices: Collection[int]) -> RoutedOffsets:
        """Return the part that belongs to the sources with these indices."""
        return self._part(lambda index: index in indices)

    def without(self, indices: Collection[int]) -> RoutedOffsets:
        """Return the part that belongs to all sources except those with these indices."""
        return self._part(lambda index: index not in indices)

    def _part(self, has: Callable[[int | None], bool]) -> RoutedOffsets:
        sources = {index: parts for index, parts in self.sources.items() if has(index)}
        ignored = tuple(event for event in self.ignored if has(event.source))
        return replace(self, sources=sources, ignored=ignored)

    @property
    def commits(self) -> tuple[GroupOffsets, ...]:
        """The offsets to commit, combined into one GroupOffsets for each group.

        If two sources hold the same partition for the same group, the lower offset counts.
        """
        return combine(part for parts in self.sources.values() for part in parts)

    @property
    def shared(self) -> tuple[PartitionsShared, ...]:
        """The partitions that several sources feed to the same group."""
        groups: dict[tuple[Cluster, str], dict[int, GroupOffsets]] = {}
        for index, parts in self.sources.items():
            for part in parts:
                groups.setdefault((part.cluster, part.group), {})[index] = part
        overlaps = []
        for (cluster, group), readers in groups.items():
            times = Counter(tp for part in readers.values() for tp in part.positions)
            partitions = sorted(tp for tp, count in times.items() if count > 1)
            if partitions:
                overlaps.append(
                    PartitionsShared(
                        cluster=str(cluster),
                        group=group,
                        partitions=tuple(partitions),
                        readers=tuple(f"{self.query}, source {i}" for i in sorted(readers)),
                    )
                )
        return tuple(overlaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRouting:
    """The user's settings that determine the groups and clusters to commit to.

    `kafka` holds librdkafka properties that take precedence over the source's own; `gssapi` is True
    if the installed librdkafka supports Kerberos.
    """

    names: GroupNames = field(default_factory=GroupNames)
    kafka: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    gssapi: bool = False

    def route(
        self,
        progress: Progress,
        options: Mapping[int, Mapping[str, str]] | None,
        unread: Unread | None = None,
    ) -> RoutedOffsets:
        """Return the offsets of an event by Kafka source, with their clusters and groups.

        `options` are the reader options by source index, with keys in lower case, or None if they
        could not be read from the running query; then `unread` has the reason.
        """
        if not progress.sources:
            return RoutedOffsets(
                query=progress.query, sources={}, ignored=(self._no_kafka(progress),)
            )
        metadata = CommitMetadata.for_batch(
            name=progress.name,
            query_id=progress.query_id,
            run_id=progress.run_id,
            batch_id=progress.batch_id,
        ).text()
        sources = {}
        ignored = []
        for source in progress.sources:
            source_options = None if options is None else options.get(source.index)
            lossy = skips_losses(source_options)
            parts = []
            for topic, positions in positions_by_topic(source.end or Offsets(), metadata).items():
                try:
                    group = self.names.find(progress, topic, source_options)
                    cluster = self.cluster(source_options)
                except NotCommitted as reason:
                    ignored.append(_ignored(progress, source, topic, reason, unread))
                else:
                    parts.append(
                        GroupOffsets(
                            cluster=cluster,
                            group=group,
                            positions=positions,
                            owner=short_id(progress.run_id),
                            lossy=lossy,
                        )
                    )
            if parts:
                sources[source.index] = combine(parts)
        return RoutedOffsets(query=progress.query, sources=sources, ignored=tuple(ignored))

    def _no_kafka(self, progress: Progress) -> SourceIgnored:
        return SourceIgnored(
            query=progress.query,
            run_id=progress.run_id,
            source=None,
            problem="the query reads nothing from Kafka, so there is nothing to commit",
            cause="it has no Kafka source",
            fix="remove it from `groups`, or check that the right query has this name",
            misconfigured=self.names.mention(progress),
        )

    def cluster(self, options: Mapping[str, str] | None) -> Cluster:
        """Return the cluster that a source reads, from its reader options.

        Raises NotCommitted if the options name no servers, or cannot be used.
        """
        options = options or {}
        servers = self.kafka.get(SERVERS) or _in_order(options.get(SERVERS_OPTION, ""))
        if not servers:
            raise NotCommitted(
                "cannot determine the bootstrap servers of this source",
                None,
                "pass them: OffsetCommitListener(bootstrap_servers='host:port')",
            )
        source = tuple(sorted((k, v) for k, v in options.items() if k.startswith(_KAFKA)))
        try:
            require_property(SERVERS, servers)
            access = _access(source, frozenset(self.kafka), self.gssapi, TOKENS in options)
        except SettingsError as error:
            raise NotCommitted(error.problem, error.cause or "", error.fix or "") from None
        if access.client == "java":
            return Cluster.from_properties({SERVERS: servers}, access)
        return Cluster.from_properties({**self.kafka, SERVERS: servers}, access)


@lru_cache(maxsize=1024)  # called at every event, and the text of a truststore may be long
def _access(
    source: tuple[tuple[str, str], ...], own: frozenset[str], gssapi: bool, tokens: bool
) -> ClientAccess:
    return translate(dict(source), own=own, gssapi=gssapi, tokens=tokens)


def _in_order(servers: str) -> str:
    """Return the servers sorted and without spaces, so that the spelling does not matter."""
    return ",".join(sorted({server.strip() for server in servers.split(",") if server.strip()}))


def skips_losses(options: Mapping[str, str] | None) -> bool:
    """Return True if Spark is set to skip records that Kafka deleted before Spark read them."""
    return (options or {}).get("failondataloss", "true").lower() == "false"


def _ignored(
    progress: Progress,
    source: SourceProgress,
    topic: str,
    reason: NotCommitted,
    unread: Unread | None,
) -> SourceIgnored:
    cause, fix = reason.cause, reason.fix
    if cause is None:
        cause = "Spark's plan of the query does not contain the options of this source"
        if unread is not None:
            cause = unread.cause
            fix = unread.fix or f"if no later line withdraws this one, {fix}"
    several = source.end is not None and len(source.end.topics()) > 1
    return SourceIgnored(
        query=progress.query,
        run_id=progress.run_id,
        source=source.index,
        problem=f"topic {topic}: {reason.problem}" if several else reason.problem,
        cause=cause,
        fix=fix,
        misconfigured=reason.misconfigured,
        retried=reason.cause is None and unread is not None,
    )
