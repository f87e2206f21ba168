"""Reads the logs of a query's sources, with the sources' connection options."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.tracking.group_names import GROUP_OPTION, OWN_GROUP_OPTION, NotCommitted
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.errors import KafkaError, SettingsError
from eo_listener.kafka.group_stores import has_gssapi, librdkafka_properties
from eo_listener.kafka.java_groups import JavaGroups
from eo_listener.kafka.logs import NO_OFFSETS, Logs
from eo_listener.model.kafka_errors import NO_TOPIC, PASSING
from eo_listener.model.protocols import GroupSnapshot, ShimClient
from eo_listener.offsets import TopicPartition

LOGS_TIMEOUT: Final = 60.0
"""The seconds for which a batch waits for an unreachable Kafka before it fails."""

# NO_TOPIC may pass, because a broker may not know a topic yet. The answer leaves out a deleted
# topic.
_PASSING: Final = PASSING | NO_TOPIC
_REQUEST: Final = 10.0
_PAUSE: Final = 0.5
# Java's snapshot needs a group that the client may describe; the group's offsets are not used.
# These options, and the prefix of Spark's own groups, name a group for which the client has rights.
_GROUPS: Final = (GROUP_OPTION, OWN_GROUP_OPTION, "kafka.group.id")
_PREFIX: Final = "groupidprefix"

_Asker: TypeAlias = "Logs | JavaGroups"


class SourceLogs:
    """Reads log starts, log ends and topic ids; keeps one client per cluster until `close`.

    Only one thread may use the object at a time; a forked process opens clients of its own.
    """

    def __init__(
        self, shim_client: ShimClient | None = None, *, timeout: float = LOGS_TIMEOUT
    ) -> None:
        self._rules = GroupRouting(gssapi=has_gssapi())
        self._shim_client = shim_client
        self._timeout = timeout
        # The key has the process too: librdkafka's threads do not survive a fork, and in the forked
        # process closing a client would wait for its threads.
        self._clients: dict[tuple[int, Cluster], _Asker] = {}
        weakref.finalize(self, _close, self._clients)

    def snapshot(
        self, options: Mapping[str, str], partitions: Collection[TopicPartition]
    ) -> GroupSnapshot:
        """Read a snapshot of a source's logs.

        `options` are the options of the reader, with keys in lower case. If Kafka or a leader is
        unreachable, the method waits, and raises KafkaError after `timeout` seconds. If Kafka
        refuses the request, the method raises KafkaError at once. Raises SettingsError for options
        that name no usable cluster.
        """
        cluster = self.cluster(options)
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                request = min(deadline, time.monotonic() + _REQUEST)
                asker = self._asker(cluster)
                if isinstance(asker, Logs):
                    return asker.snapshot(NO_OFFSETS, partitions, request).whole()
                seconds = request - time.monotonic()
                return asker.snapshot(_group(options), partitions, timeout=seconds).whole()
            except KafkaError as error:
                # A client's own error (`_TRANSPORT`) may pass, a broker's only if it is listed.
                passing = error.code.startswith("_") or error.code in _PASSING
                if not passing or time.monotonic() + _PAUSE >= deadline:
                    raise
            time.sleep(_PAUSE)

    def cluster(self, options: Mapping[str, str]) -> Cluster:
        """Return the cluster that a source reads. Raises SettingsError."""
        try:
            return self._rules.cluster(options)
        except NotCommitted as reason:
            raise SettingsError(reason.problem, cause=reason.cause, fix=reason.fix) from None

    def close(self) -> None:
        """Close the connections."""
        _close(self._clients)

    def _asker(self, cluster: Cluster) -> _Asker:
        key = os.getpid(), cluster
        asker = self._clients.get(key)
        if asker is None:
            asker = self._clients[key] = self._open(cluster)
        return asker

    def _open(self, cluster: Cluster) -> _Asker:
        if cluster.client != "java":
            return Logs(librdkafka_properties(cluster, self._shim_client))
        if self._shim_client is None:
            raise SettingsError(
                f"the cluster at {cluster} cannot be reached without Spark's JVM",
                cause=cluster.java_reason,
            )
        return JavaGroups(self._shim_client, dict(cluster.properties))


def _group(options: Mapping[str, str]) -> str:
    for name in _GROUPS:
        if options.get(name):
            return options[name]
    return f"{options.get(_PREFIX) or 'spark-kafka-source'}-eo-listener"


def _close(clients: dict[tuple[int, Cluster], _Asker]) -> None:
    for key in [key for key in clients if key[0] == os.getpid()]:
        clients.pop(key).close()
