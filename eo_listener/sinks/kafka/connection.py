"""The sink's connection: from the options of Spark's own Kafka sink to a producer's properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from eo_listener.client_config.cluster import Cluster
from eo_listener.client_config.kafka_options import PREFIX
from eo_listener.client_config.producer_options import producer_properties
from eo_listener.client_config.translate import translate
from eo_listener.client_config.validation import SERVERS, require_ports
from eo_listener.kafka.group_stores import has_gssapi, librdkafka_properties
from eo_listener.model.errors import SettingsError

if TYPE_CHECKING:
    from eo_listener.model.protocols import ShimClient

_SERVERS: Final = PREFIX + SERVERS
_LONGEST: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """A cluster, and the properties of this sink's producers. Times in seconds.

    `tuning` are the user's producer properties in librdkafka's names, for the driver's producer;
    `java` all of its options in Java's names, for the executors' producers. `timeout` bounds each
    request to Kafka; `transaction_timeout` is how long the broker leaves a batch's transaction
    open.
    """

    cluster: Cluster
    tuning: Mapping[str, str] = field(repr=False)
    java: Mapping[str, str] = field(repr=False)
    timeout: float
    transaction_timeout: float

    @classmethod
    def of(
        cls, options: Mapping[str, str], *, timeout: float, transaction_timeout: float
    ) -> ConnectionSettings:
        """Translate the options of Spark's own sink.

        Raises SettingsError, whose texts name options and never quote their values.
        """
        given = {str(name).lower(): str(value) for name, value in options.items()}
        servers = given.get(_SERVERS, "").strip()
        if not servers:
            raise SettingsError(
                f"the options name no {_SERVERS}", fix=f'Add {{"{_SERVERS}": "host:9092"}}'
            )
        require_ports(servers)
        times: dict[str, object] = {"timeout": timeout, "transaction_timeout": transaction_timeout}
        for name, seconds in times.items():
            if isinstance(seconds, bool) or not (
                isinstance(seconds, int | float) and 1 <= seconds <= _LONGEST
            ):
                raise SettingsError(
                    f"{name} must be from 1 to {_LONGEST:,} seconds, got {seconds!r}",
                    fix="Give seconds in this range",
                )
        cluster = Cluster.of({SERVERS: servers}, translate(given, gssapi=has_gssapi()))
        cluster.require_librdkafka(f"the cluster at {cluster} cannot be written to from Python")
        return cls(
            cluster=cluster,
            tuning=producer_properties(given),
            java=_of_java(given, transaction_timeout),
            timeout=timeout,
            transaction_timeout=transaction_timeout,
        )

    @property
    def servers(self) -> str:
        """The bootstrap servers, as messages name the cluster."""
        return self.cluster.servers

    def properties(self) -> dict[str, str]:
        """Return librdkafka's properties to connect with; they hold secrets.

        Raises KafkaError where a key store cannot be read.
        """
        shim_client: ShimClient | None = None
        if self.cluster.stores:
            from eo_listener.spark.jvm.shim_client import (  # noqa: PLC0415  # needs Spark
                JvmShimClient,
            )

            shim_client = JvmShimClient()
        return librdkafka_properties(self.cluster, shim_client)


def _of_java(given: Mapping[str, str], transaction_timeout: float) -> dict[str, str]:
    properties = {
        name.removeprefix(PREFIX): text for name, text in given.items() if name.startswith(PREFIX)
    }
    return {**properties, "transaction.timeout.ms": str(round(transaction_timeout * 1000))}
