"""The options of `eo-listener audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from eo_listener.cli import completion
from eo_listener.sinks.ledger_address import FORMS

COLUMNS = "topic,partition,offset"

CheckpointUrl = Annotated[
    str | None,
    typer.Option("--checkpoint", "-c", help="The query's checkpointLocation: a folder or a URL."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("-g", "--group", help="A group that the query commits to; repeatable."),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("-t", "--topic", help="A topic to read in addition to those found; repeatable."),
]
Uncommitted = Annotated[
    list[str] | None,
    typer.Option(help="A topic that the query does not commit to any group; repeatable."),
]
Ledgers = Annotated[
    list[str] | None,
    typer.Option(
        "--ledger",
        autocompletion=completion.ledger,
        help=f"A sink's ledger: {FORMS}; repeatable. For PostgreSQL's password use PGPASSWORD "
        "or ~/.pgpass.",
    ),
]
Schema = Annotated[str | None, typer.Option(help="The schema of PostgreSQL's ledgers.")]
Query = Annotated[
    str | None,
    typer.Option(help="The query's name in the ledger: its queryName or name=."),
]
Sink = Annotated[
    str | None, typer.Option(help="Compare this sink of the ledger only, by its name.")
]
Rows = Annotated[
    bool, typer.Option("--rows", help="Count the rows of the sinks' tables by source offset.")
]
Columns = Annotated[
    str, typer.Option(help="With --rows: the columns of topic, partition and offset.")
]
Wait = Annotated[
    float | None,
    typer.Option(
        help="Seconds to wait until the groups are drained (lag 0, no open transaction, no "
        "members, no batch in doubt, two equal readings); then print how the next consumer starts."
    ),
]
ReadCommitted = Annotated[
    bool,
    typer.Option("--read-committed", help="With --rows: the query reads committed records only."),
]
