"""Opening the groups of a cluster: by librdkafka, or by Spark's own Kafka client where it must."""

from __future__ import annotations

from eo_listener.client_config.key_stores import REQUEST, KeyStore
from eo_listener.commit.groups.policy import CommitMode
from eo_listener.commit.tracking.routing import Cluster
from eo_listener.kafka.group_stores import open_groups
from eo_listener.kafka.java_groups import JavaGroups
from eo_listener.model.errors import FormatError, JvmError, KafkaError, SettingsError
from eo_listener.model.kafka_errors import NO_JAVA, NO_STORE, ONLY_SIMPLE
from eo_listener.model.protocols import GroupStore, ShimClient


def open_cluster(cluster: Cluster, mode: str, hands: ShimClient | None) -> GroupStore:
    """The groups of a cluster in this commit mode; asks Java where its key stores are needed.

    For the thread that will use them. Raises KafkaError where that cannot be had now, which a
    later call may mend, and SettingsError for settings that librdkafka does not accept.
    """
    if cluster.client == "java":
        return _by_java(cluster, mode, hands)
    return open_groups(librdkafka_properties(cluster, hands), mode)


def librdkafka_properties(cluster: Cluster, hands: ShimClient | None) -> dict[str, str]:
    """librdkafka's properties for a cluster, key stores as PEM. Raises KafkaError."""
    properties = dict(cluster.properties)
    for store in cluster.stores:
        properties |= _read(store, hands)
    return properties


def _by_java(cluster: Cluster, mode: str, hands: ShimClient | None) -> GroupStore:
    if mode != CommitMode.SIMPLE.value:
        raise KafkaError(
            f"the groups at {cluster} cannot be committed to in mode {mode!r}",
            code=ONLY_SIMPLE,
            cause=cluster.why_java,
        )
    if hands is None:
        raise _no_java(cluster.why_java)
    return JavaGroups(hands, dict(cluster.properties))


def _read(store: KeyStore, hands: ShimClient | None) -> dict[str, str]:
    if hands is None:
        raise _no_java(f"the key store {store.location} is of type {store.type}")
    try:
        return dict(store.properties(hands.call(REQUEST, store.argument())))
    except (JvmError, FormatError, SettingsError) as error:
        raise KafkaError(
            f"the key store {store.location} could not be read", code=NO_STORE, cause=str(error)
        ) from None  # the cause is told in full, and the answer holds a key


def _no_java(why: str | None) -> KafkaError:
    return KafkaError("the cluster cannot be reached without Java", code=NO_JAVA, cause=why)
