"""Which cluster and which consumer group the offsets of a source go to.

The group of a topic is, in this order: what `groups` says of the query, or of the topic in the
query; the source option `kafka.consumer.commit.groupid`; the source option
`eo.commit.group`; the template. A source with none of these is left alone.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from eo_listener.errors import SettingsError
from eo_listener.events import SourceIgnored
from eo_listener.metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition
from eo_listener.progress import Progress, SourceProgress

GROUP_OPTION = "kafka.consumer.commit.groupid"
OWN_GROUP_OPTION = "eo.commit.group"
SERVERS_OPTION = "kafka.bootstrap.servers"
PROTOCOL_OPTION = "kafka.security.protocol"

TEMPLATE_FIELDS = ("query_name", "query_id", "topic")

Groups = Mapping[str, "str | Mapping[str, str]"]
"""From the name (or id) of a query to a group; or from its topics to groups, `*` for the rest."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Kafka cluster as a client sees it: librdkafka properties, in sorted order."""

    properties: tuple[tuple[str, str], ...] = field(repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Cluster:
        """Build from a mapping; equal mappings give equal clusters, and one client."""
        return cls(tuple(sorted(properties.items())))

    @property
    def servers(self) -> str:
        """The bootstrap servers: the only part of a cluster that is ever shown."""
        return dict(self.properties)["bootstrap.servers"]

    def __str__(self) -> str:
        return self.servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Positions that are to be committed to one group of one cluster."""

    cluster: Cluster
    group: str
    positions: Mapping[TopicPartition, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What is to be committed for one progress event, and what is left out."""

    commits: tuple[Commit, ...]
    ignored: tuple[SourceIgnored, ...]


class _LeftOut(Exception):  # noqa: N818  # not an error: ends the routing of one source
    def __init__(self, problem: str, cause: str, fix: str, *, wrong: bool) -> None:
        super().__init__(problem)
        self.problem, self.cause, self.fix, self.wrong = problem, cause, fix, wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The user's settings of where to commit.

    `kafka` holds librdkafka properties that win over what the source was given. Raises
    SettingsError for an empty group and for an unknown template field.
    """

    groups: Groups = field(default_factory=lambda: MappingProxyType({}))
    template: str | None = None
    kafka: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    def __post_init__(self) -> None:
        for query, entry in self.groups.items():
            if isinstance(entry, Mapping):
                for topic, group in entry.items():
                    _check_group(group, f"groups[{query!r}][{topic!r}]")
            else:
                _check_group(entry, f"groups[{query!r}]")
        if self.template is not None:
            _check_template(self.template)

    def route(self, progress: Progress, options: Mapping[int, Mapping[str, str]] | None) -> Route:
        """Give each Kafka source of an event its cluster and group.

        `options` are the reader options by source index, keys in lower case; None when the
        running query could not be asked. Where two sources of one query hold the same
        partition for the same group, the lesser offset counts.
        """
        if not progress.sources:
            return Route(commits=(), ignored=(self._no_kafka(progress),))
        found: dict[tuple[Cluster, str], dict[TopicPartition, Position]] = {}
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
                    group = self._group(progress, topic, given)
                    positions = found.setdefault((self._cluster(given), group), {})
                except _LeftOut as why:
                    ignored.append(_ignored(progress, source, topic, why))
                else:
                    _add(positions, source, topic, metadata)
        commits = (
            Commit(cluster=cluster, group=group, positions=positions)
            for (cluster, group), positions in found.items()
        )
        return Route(commits=tuple(commits), ignored=tuple(ignored))

    def _no_kafka(self, progress: Progress) -> SourceIgnored:
        return SourceIgnored(
            query=progress.query,
            run_id=progress.run_id,
            source=None,
            problem="the query reads nothing from Kafka, so there is nothing to commit",
            cause="none of its sources is a Kafka source",
            fix="leave it out of `groups`, or check that the right query has this name",
            wrong=progress.name in self.groups or progress.query_id in self.groups,
        )

    def _group(self, progress: Progress, topic: str, given: Mapping[str, str] | None) -> str:
        for query in (progress.name, progress.query_id):
            named = self.groups.get(query) if query is not None else None
            if isinstance(named, Mapping):
                named = named.get(topic, named.get("*"))
            if named is not None:
                return named
        if given is not None:
            group = _group_option(given)
            if group is not None:
                return group
        if given is not None:
            _refuse_near_miss(given)
        if self.template is not None:
            return self._from_template(progress, topic)
        if given is None:
            raise _LeftOut(
                "the options of this source could not be read, so its group is unknown",
                "the query had ended, or Spark's JVM is out of reach (Spark Connect)",
                "name the group: OffsetCommitListener(groups={'<query name>': '<group>'})",
                wrong=True,
            )
        raise _no_group()

    def _from_template(self, progress: Progress, topic: str) -> str:
        assert self.template is not None  # noqa: S101  # asked by the caller, told to mypy
        if progress.name is None and "{query_name}" in self.template:
            raise _LeftOut(
                f"the group template {self.template!r} needs the name of the query",
                "the query was started without queryName",
                "add .queryName('...') to the query, or use {query_id} in the template",
                wrong=True,
            )
        fields = {"query_name": progress.name, "query_id": progress.query_id, "topic": topic}
        return self.template.format_map(fields)

    def _cluster(self, given: Mapping[str, str] | None) -> Cluster:
        given = given or {}
        properties = dict(self.kafka)
        if "bootstrap.servers" not in properties:
            servers = given.get(SERVERS_OPTION)
            if not servers:
                raise _LeftOut(
                    "the bootstrap servers of this source are unknown",
                    "its options could not be read from the running query",
                    "give them: OffsetCommitListener(bootstrap_servers='host:port')",
                    wrong=True,
                )
            properties["bootstrap.servers"] = _in_order(servers)
        protocol = given.get(PROTOCOL_OPTION, "PLAINTEXT").upper()
        if protocol != "PLAINTEXT" and "security.protocol" not in self.kafka:
            raise _LeftOut(
                f"the source reads its topics by {protocol}, which is not carried over yet",
                f"its option {PROTOCOL_OPTION} is set, and the listener has no client settings",
                "give them in librdkafka's names: OffsetCommitListener(kafka={"
                f"'security.protocol': '{protocol}', ...}})",
                wrong=True,
            )
        return Cluster.of(properties)


def _in_order(servers: str) -> str:
    """The same servers in one spelling, so that two ways to write them are one cluster."""
    return ",".join(sorted({server.strip() for server in servers.split(",") if server.strip()}))


def _add(
    positions: dict[TopicPartition, Position], source: SourceProgress, topic: str, metadata: str
) -> None:
    for tp, offset in (source.end or {}).items():
        if tp.topic == topic:
            held = positions.get(tp)
            if held is None or offset < held.offset:
                positions[tp] = Position(offset=offset, metadata=metadata)


def _group_option(given: Mapping[str, str]) -> str | None:
    values = {name: given[name] for name in (GROUP_OPTION, OWN_GROUP_OPTION) if name in given}
    for name, value in values.items():
        if not value.strip():
            raise _LeftOut(
                f"the source option {name} is empty",
                "a variable in the job may be unset",
                f"set .option('{name}', '<group>'), or leave the option out",
                wrong=True,
            )
    if len(set(values.values())) > 1:
        raise _LeftOut(
            f"the source options {GROUP_OPTION} and {OWN_GROUP_OPTION} name two groups, "
            f"{values[GROUP_OPTION]!r} and {values[OWN_GROUP_OPTION]!r}",
            "the job sets both",
            "set only one of them",
            wrong=True,
        )
    return next(iter(values.values()), None)


def _no_group() -> _LeftOut:
    return _LeftOut(
        "no consumer group is named for this source, so it is left alone",
        f"neither {GROUP_OPTION} nor {OWN_GROUP_OPTION} is among its options",
        f"add .option('{GROUP_OPTION}', '<group>') to the reader to have it committed",
        wrong=False,
    )


def _refuse_near_miss(given: Iterable[str]) -> None:
    """Raise for an option that looks like a misspelt group: it must not be passed over."""
    for name in given:
        own = name.startswith("eo.")
        if own or difflib.get_close_matches(name, (GROUP_OPTION, OWN_GROUP_OPTION), cutoff=0.8):
            raise _LeftOut(
                f"the source option {name!r} names no group that eo_listener knows",
                "the option may be misspelt",
                f"write .option('{GROUP_OPTION}', '<group>')",
                wrong=True,
            )


def _ignored(
    progress: Progress, source: SourceProgress, topic: str, why: _LeftOut
) -> SourceIgnored:
    several = source.end is not None and len(source.end.topics()) > 1
    return SourceIgnored(
        query=progress.query,
        run_id=progress.run_id,
        source=source.index,
        problem=f"topic {topic}: {why.problem}" if several else why.problem,
        cause=why.cause,
        fix=why.fix,
        wrong=why.wrong,
    )


def _check_group(group: object, where: str) -> None:
    if not isinstance(group, str) or not group.strip():
        raise SettingsError(
            f"{where} is {group!r}, which is no consumer group",
            fix="Give a name, such as 'flights-to-pg'",
        )


def _check_template(template: str) -> None:
    _check_group(template, "group_template")
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise SettingsError(
            f"group_template {template!r} cannot be read",
            cause=str(error),
            fix="Write a single brace twice",
        ) from error
    for _, name, spec, conversion in parts:
        if name is not None and (name not in TEMPLATE_FIELDS or spec or conversion):
            raise SettingsError(
                f"group_template {template!r} has a field {{{name}}} that cannot be used",
                fix="Use just " + ", ".join(f"{{{known}}}" for known in TEMPLATE_FIELDS),
            )
