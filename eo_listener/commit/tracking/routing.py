"""Where the offsets of a progress event go: which cluster, which consumer group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from eo_listener.client_config.cluster import Cluster
from eo_listener.client_config.translate import ClientAccess, translate
from eo_listener.client_config.validation import SERVERS, require_property
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.tracking.group_names import GroupNames, NotCommitted
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import SettingsError
from eo_listener.model.events import PartitionsShared, SourceIgnored
from eo_listener.model.offsets import Position, TopicPartition
from eo_listener.model.progress import Progress, SourceProgress

SERVERS_OPTION = "kafka.bootstrap.servers"
TOKENS = "spark.kafka.clusters"  # the shim's word beside the options: Spark has delegation tokens

_KAFKA = "kafka."


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedOffsets:
    """What is to be committed for one progress event, and what is left out.

    `shared` reports partitions that several sources of the query feed to the same group.
    """

    commits: tuple[GroupOffsets, ...]
    ignored: tuple[SourceIgnored, ...]
    shared: tuple[PartitionsShared, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRouting:
    """The user's settings of where to commit.

    `kafka` holds librdkafka properties that win over what the source was given; `gssapi` says
    whether the librdkafka that is installed can do Kerberos.
    """

    names: GroupNames = field(default_factory=GroupNames)
    kafka: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    gssapi: bool = False

    def route(
        self, progress: Progress, options: Mapping[int, Mapping[str, str]] | None
    ) -> RoutedOffsets:
        """Give each Kafka source of an event its cluster and group.

        `options` are the reader options by source index, keys in lower case; None when the
        running query could not be asked. Where two sources of one query hold the same
        partition for the same group, the lower offset counts.
        """
        if not progress.sources:
            return RoutedOffsets(commits=(), ignored=(self._no_kafka(progress),))
        found: dict[tuple[Cluster, str], _Gathered] = {}
        ignored = []
        metadata = CommitMetadata.of(
            name=progress.name,
            query_id=progress.query_id,
            run_id=progress.run_id,
            batch_id=progress.batch_id,
        ).text()
        for source in progress.sources:
            given = None if options is None else options.get(source.index)
            for topic in source.end.topics() if source.end else ():
                try:
                    group = self.names.find(progress, topic, given)
                    gathered = found.setdefault((self.cluster(given), group), _Gathered())
                except NotCommitted as why:
                    ignored.append(_ignored(progress, source, topic, why))
                else:
                    gathered.add(source, topic, metadata, lossy=skips_losses(given))
        commits = (
            GroupOffsets(
                cluster=cluster, group=group, positions=gathered.positions, lossy=gathered.lossy
            )
            for (cluster, group), gathered in found.items()
        )
        shared = (
            PartitionsShared(
                cluster=str(cluster),
                group=group,
                partitions=tuple(sorted(gathered.shared)),
                readers=tuple(f"{progress.query}, source {i}" for i in sorted(gathered.sources)),
            )
            for (cluster, group), gathered in found.items()
            if gathered.shared
        )
        return RoutedOffsets(commits=tuple(commits), ignored=tuple(ignored), shared=tuple(shared))

    def _no_kafka(self, progress: Progress) -> SourceIgnored:
        return SourceIgnored(
            query=progress.query,
            run_id=progress.run_id,
            source=None,
            problem="the query reads nothing from Kafka, so there is nothing to commit",
            cause="none of its sources is a Kafka source",
            fix="leave it out of `groups`, or check that the right query has this name",
            misconfigured=self.names.mention(progress),
        )

    def cluster(self, given: Mapping[str, str] | None) -> Cluster:
        """The cluster that a source reads, by its reader options.

        Raises NotCommitted where they do not say, or cannot be used.
        """
        given = given or {}
        servers = self.kafka.get(SERVERS) or _in_order(given.get(SERVERS_OPTION, ""))
        if not servers:
            raise NotCommitted(
                "the bootstrap servers of this source are unknown",
                "its options could not be read from the running query",
                "give them: OffsetCommitListener(bootstrap_servers='host:port')",
            )
        source = tuple(sorted((k, v) for k, v in given.items() if k.startswith(_KAFKA)))
        try:
            require_property(SERVERS, servers)
            access = _access(source, frozenset(self.kafka), self.gssapi, TOKENS in given)
        except SettingsError as why:
            raise NotCommitted(why.problem, why.cause or "", why.fix or "") from None
        if access.client == "java":
            return Cluster.of({SERVERS: servers}, access)
        return Cluster.of({**self.kafka, SERVERS: servers}, access)


@lru_cache(maxsize=1024)  # asked at every event, and a truststore may be long
def _access(
    source: tuple[tuple[str, str], ...], own: frozenset[str], gssapi: bool, tokens: bool
) -> ClientAccess:
    return translate(dict(source), own=own, gssapi=gssapi, tokens=tokens)


def _in_order(servers: str) -> str:
    """The same servers in one spelling, so that two ways to write them are one cluster."""
    return ",".join(sorted({server.strip() for server in servers.split(",") if server.strip()}))


@dataclass(slots=True)
class _Gathered:
    """What the sources of one event say of one group."""

    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    shared: set[TopicPartition] = field(default_factory=set)
    sources: set[int] = field(default_factory=set)
    lossy: bool = False

    def add(self, source: SourceProgress, topic: str, metadata: str, *, lossy: bool) -> None:
        self.sources.add(source.index)
        self.lossy = self.lossy or lossy
        for tp, offset in (source.end or {}).items():
            if tp.topic == topic:
                held = self.positions.get(tp)
                if held is not None:
                    self.shared.add(tp)
                if held is None or offset < held.offset:
                    self.positions[tp] = Position(offset=offset, metadata=metadata)


def skips_losses(options: Mapping[str, str] | None) -> bool:
    """Whether Spark is set to skip records that Kafka has deleted before they were read."""
    return (options or {}).get("failondataloss", "true").lower() == "false"


def _ignored(
    progress: Progress, source: SourceProgress, topic: str, why: NotCommitted
) -> SourceIgnored:
    several = source.end is not None and len(source.end.topics()) > 1
    return SourceIgnored(
        query=progress.query,
        run_id=progress.run_id,
        source=source.index,
        problem=f"topic {topic}: {why.problem}" if several else why.problem,
        cause=why.cause,
        fix=why.fix,
        misconfigured=why.misconfigured,
    )
