"""Starts Kafka's Java client in a new JVM, for requests that librdkafka cannot send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from eo_listener.client_config.java_names import java_names
from eo_listener.kafka.java_transactions import JavaTransactions
from eo_listener.spark import java, shim
from eo_listener.spark.shim_process import ShimProcess, kafka_clients

_OLDEST_JAVA: Final = 11

Clients = Annotated[
    Path | None,
    typer.Option(
        "--kafka-clients",
        help="A folder with Kafka's Java client, such as /opt/kafka/libs. Default: Spark's own.",
    ),
]


@contextmanager
def java_transactions(
    properties: Mapping[str, str], clients: Path | None
) -> Iterator[JavaTransactions]:
    """Yield a client that reads transactions.

    Raises JavaError and SettingsError if the client cannot start.
    """
    in_java: Mapping[str, str] = java_names(properties)
    runtime = java.find(_OLDEST_JAVA, user="Kafka's Java client")
    with closing(ShimProcess(runtime, (shim.jar(), *kafka_clients(clients)))) as process:
        yield JavaTransactions(process, in_java)
