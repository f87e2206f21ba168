"""Translates the options of Spark's Kafka sink into the properties of producers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from eo_listener.client_config.cluster import Cluster, only_java, translate
from eo_listener.client_config.kafka_options import (
    PREFIX,
    PROTOCOL,
    Partitioner,
    java_properties,
    producer_properties,
)
from eo_listener.client_config.sasl import JAAS
from eo_listener.client_config.validation import SERVERS, require_ports
from eo_listener.errors import SettingsError
from eo_listener.kafka.group_stores import has_gssapi, librdkafka_properties
from eo_listener.model.argument_checks import require_seconds

if TYPE_CHECKING:
    from eo_listener.model.protocols import ShimClient

_SERVERS: Final = PREFIX + SERVERS
_NO_LOGIN: Final = (
    "KafkaSink, which begins and commits transactions through librdkafka, cannot log in to the "
    "cluster at {}"
)
_LONGEST: Final = 7 * 24 * 3600
_TOKENS: Final = re.compile(r"spark\.kafka\.clusters\.(.+)\.auth\.bootstrap\.servers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """The cluster of a sink, and the properties of its producers. Times are in seconds."""

    cluster: Cluster
    #: The user's producer properties in librdkafka's names, for the driver's producer.
    tuning: Mapping[str, str] = field(repr=False)
    #: All options under their Java names, for the executors' producers.
    java: Mapping[str, str] = field(repr=False)
    #: The limit of each request to Kafka.
    timeout: float
    #: How long the broker leaves a batch's transaction open.
    transaction_timeout: float
    #: The Java class that chooses partitions for the executors' producers.
    partitioner: Partitioner | None = None
    #: True if the options name a login; if they do not, Spark may add a delegation token.
    has_login: bool = False

    @classmethod
    def from_options(
        cls, options: Mapping[str, str], *, timeout: float, transaction_timeout: float
    ) -> ConnectionSettings:
        """Translate the options of Spark's Kafka sink.

        Raises SettingsError, which names options but does not show their values.
        """
        lower = {str(name).lower(): str(value) for name, value in options.items()}
        servers = lower.get(_SERVERS, "").strip()
        if not servers:
            raise SettingsError(
                f"the options lack {_SERVERS}", fix=f'Add {{"{_SERVERS}": "host:9092"}}'
            )
        require_ports(servers)
        times = {"timeout": timeout, "transaction_timeout": transaction_timeout}
        for name, seconds in times.items():
            if require_seconds(name, seconds, least=1) > _LONGEST:
                raise SettingsError(
                    f"{name} must be from 1 to {_LONGEST:,} seconds, got {seconds!r}",
                    fix="Give seconds in this range",
                )
        cluster = Cluster.from_properties({SERVERS: servers}, translate(lower, gssapi=has_gssapi()))
        cluster.require_librdkafka(_NO_LOGIN.format(cluster))
        return cls(
            cluster=cluster,
            tuning=producer_properties(lower),
            java={
                **java_properties(lower),
                "transaction.timeout.ms": str(round(transaction_timeout * 1000)),
            },
            timeout=timeout,
            transaction_timeout=transaction_timeout,
            partitioner=Partitioner.from_options(lower),
            has_login=any(PREFIX + name in lower for name in (PROTOCOL, JAAS)),
        )

    @property
    def servers(self) -> str:
        """The bootstrap servers; error texts and log lines use them as the cluster's name."""
        return self.cluster.servers

    def refuse_delegation_tokens(self) -> None:
        """Raise SettingsError if Spark would log in with a delegation token.

        Spark would do so if the options name no login and Spark has a token for the cluster. The
        method reads Spark's settings from the JVM; one call for each sink is enough.
        """
        if not self.has_login and has_delegation_token(self.servers):
            raise only_java(
                _NO_LOGIN.format(self.cluster), "Spark has delegation tokens for this cluster"
            )

    def properties(self) -> dict[str, str]:
        """Return librdkafka's properties for a connection; these contain secrets.

        Raises KafkaError if a key store cannot be read.
        """
        shim_client: ShimClient | None = None
        if self.cluster.stores:
            from eo_listener.spark.jvm.calls import JvmShimClient  # noqa: PLC0415  # needs Spark

            shim_client = JvmShimClient()
        return librdkafka_properties(self.cluster, shim_client)


def has_delegation_token(servers: str) -> bool:
    """Return True if Spark's own clients log in to one of these brokers with a delegation token.

    The function matches brokers as KafkaTokenUtil.findMatchingTokenClusterConfig does. In a client
    of Spark Connect, which does not know the driver's settings, it returns False.
    """
    from pyspark import SparkContext  # noqa: PLC0415  # tests of options need no Spark

    context = SparkContext._active_spark_context  # noqa: SLF001  # getOrCreate would start one
    if context is None:
        return False
    settings = dict(context.getConf().getAll())
    targets = (
        settings.get(f"spark.kafka.clusters.{match[1]}.target.bootstrap.servers.regex", ".*")
        for match in map(_TOKENS.fullmatch, settings)
        if match is not None
    )
    each = [server.strip() for server in servers.split(",")]
    return any(re.fullmatch(target, server) for target in targets for server in each)
