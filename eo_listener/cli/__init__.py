"""The command `eo-listener`: one module a subcommand; errors become one line here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from eo_listener import __version__
from eo_listener.cli import broker, demo, jar, status
from eo_listener.errors import EoListenerError

app = typer.Typer(
    name="eo-listener",
    help="Knowing, and proving, where Spark stands in Kafka.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"eo-listener {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit status: 0 fine, 1 something was found, 2 wrong use, 3 could not reach something."
)
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Knowing, and proving, where Spark stands in Kafka."""


app.command(name="demo", epilog=demo.EXAMPLE)(demo.demo)
app.command(name="status", epilog=status.EXAMPLE)(status.status)
app.add_typer(broker.app, name="broker")
app.command(name="jar", epilog=jar.EXAMPLE)(jar.jar)


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    try:
        app()
    except EoListenerError as error:
        print(f"eo-listener: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
