"""How the commands of `eo-listener ledger` name a ledger."""

from __future__ import annotations

from typing import Annotated

import typer

from eo_listener.cli import completion
from eo_listener.cli.options import as_properties, require_cluster
from eo_listener.sinks.ledger_address import FORMS, LedgerAddress

Address = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER",
        autocompletion=completion.ledger,
        help=f"{FORMS}. kafka:TOPIC needs -b.",
    ),
]
Schema = Annotated[
    str | None, typer.Option(help="PostgreSQL: the ledger's schema. Default: by the search_path.")
]
Servers = Annotated[
    str | None, typer.Option("-b", "--bootstrap-server", help="Kafka's address, for kafka:TOPIC.")
]
Sink = Annotated[
    str | None, typer.Option(help="The sink's key, as `ledger show` prints it: its table or topic.")
]
Query = Annotated[
    str | None, typer.Option(help="The name of the query: name= of exactly_once, or queryName.")
]


def client_properties(
    address: LedgerAddress, servers: str | None, given: list[str] | None
) -> dict[str, str] | None:
    """Those of a Kafka client, of -b or else of the servers that a topic names itself; or None.

    Raises SettingsError, for properties without a cluster too.
    """
    servers = servers or address.servers
    require_cluster(servers, given)
    return None if servers is None else as_properties(servers, given)
