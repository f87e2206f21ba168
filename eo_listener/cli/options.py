"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from eo_listener.errors import SettingsError
from eo_listener.kafka import check

BootstrapServers = Annotated[
    str, typer.Option("-b", "--bootstrap-server", help="Kafka's address, host:port.")
]
KafkaProperties = Annotated[
    list[str] | None,
    typer.Option(
        "-X", "--kafka", help="A client property in librdkafka's names, key=value; repeatable."
    ),
]


def as_properties(servers: str, given: list[str] | None) -> dict[str, str]:
    """Build a client's properties. Raises SettingsError for one that librdkafka does not know."""
    properties = {"bootstrap.servers": servers}
    for pair in given or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingsError(
                f"--kafka {key!r} is not of the form key=value",
                fix="Write for example --kafka security.protocol=SSL",
            )
        properties[key.strip()] = value
    check(properties)
    return properties
