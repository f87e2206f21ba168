"""Opens the group stores, which implement the commit modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka.admin import AdminClient

from eo_listener.client_config.cluster import Cluster
from eo_listener.client_config.tls import REQUEST, KeyStore
from eo_listener.client_config.validation import SERVERS, require_ports
from eo_listener.commit.groups.policy import CommitMode
from eo_listener.errors import FormatError, JvmError, KafkaError, SettingsError
from eo_listener.kafka.client import MEMBER, OUTSIDER, Client, new_client
from eo_listener.kafka.java_groups import JavaGroups
from eo_listener.kafka.member_groups import MemberGroups
from eo_listener.kafka.producers import OffsetProducer
from eo_listener.kafka.simple_groups import Ownership, SimpleGroups
from eo_listener.kafka.transactional_groups import TransactionalGroups
from eo_listener.model.argument_checks import require_one_of
from eo_listener.model.kafka_errors import NO_JAVA, NO_STORE, ONLY_SIMPLE
from eo_listener.model.protocols import GroupStore, ShimClient

_GROUP = "eo-listener-check"

MODES: Mapping[str, Callable[[Mapping[str, str]], GroupStore]] = {
    "simple": SimpleGroups,
    "member": MemberGroups,
    "transactional": TransactionalGroups,
}


def open_groups(properties: Mapping[str, str], mode: str) -> GroupStore:
    """Return the group store of a cluster in this mode; it does not connect yet.

    Raises SettingsError for an unknown mode.
    """
    require_one_of("mode", mode, MODES)
    return MODES[mode](properties)


def check(properties: Mapping[str, str], mode: str = "simple") -> None:
    """Raise SettingsError if librdkafka does not accept these properties in this mode.

    The function does not connect to Kafka.
    """
    require_one_of("mode", mode, MODES)
    require_ports(properties.get(SERVERS, ""))
    nowhere = {**properties, SERVERS: ""}
    Client(nowhere, _GROUP, role=MEMBER if mode == "member" else OUTSIDER).close()
    if mode == "transactional":
        OffsetProducer(nowhere, _GROUP, Ownership()).close()


def has_gssapi() -> bool:
    """Return True if the installed librdkafka supports Kerberos.

    The librdkafka in confluent-kafka's wheels does not.
    """
    try:
        new_client(AdminClient, {"builtin.features": "sasl_gssapi"})
    except SettingsError:  # librdkafka's answer if it lacks this feature
        return False
    return True


def open_cluster(cluster: Cluster, mode: str, shim_client: ShimClient | None) -> GroupStore:
    """Return the group store of a cluster in this mode, after Java has read the key stores.

    Call this function on the thread that will use the group store. Raises KafkaError if the group
    store cannot be opened now but a later call may succeed, and SettingsError if librdkafka does
    not accept the settings.
    """
    if cluster.client == "java":
        return _java_groups(cluster, mode, shim_client)
    return open_groups(librdkafka_properties(cluster, shim_client), mode)


def librdkafka_properties(cluster: Cluster, shim_client: ShimClient | None) -> dict[str, str]:
    """Return librdkafka's properties for a cluster, with key stores as PEM. Raises KafkaError."""
    properties = dict(cluster.properties)
    for store in cluster.stores:
        properties |= _pem_properties(store, shim_client)
    return properties


def _java_groups(cluster: Cluster, mode: str, shim_client: ShimClient | None) -> GroupStore:
    if mode != CommitMode.SIMPLE.value:
        raise KafkaError(
            f"cannot commit to groups at {cluster} in mode {mode!r}",
            code=ONLY_SIMPLE,
            cause=cluster.java_reason,
        )
    if shim_client is None:
        raise _no_java(cluster.java_reason)
    return JavaGroups(shim_client, dict(cluster.properties))


def _pem_properties(store: KeyStore, shim_client: ShimClient | None) -> dict[str, str]:
    if shim_client is None:
        raise _no_java(f"the key store {store.location} has type {store.type}")
    try:
        return dict(store.properties(shim_client.call(REQUEST, store.argument())))
    except (JvmError, FormatError, SettingsError) as error:
        raise KafkaError(
            f"the key store {store.location} could not be read", code=NO_STORE, cause=str(error)
        ) from None  # the cause is complete, and the answer holds a key


def _no_java(reason: str | None) -> KafkaError:
    return KafkaError("the cluster cannot be reached without Java", code=NO_JAVA, cause=reason)
