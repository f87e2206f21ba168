"""The command `eo-listener`: one module a subcommand; errors become one line here."""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from eo_listener import __version__
from eo_listener.cli import broker, demo, follow, jar, preflight, status
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
    epilog="Exit status: 0 fine, 1 something was found, 2 wrong use, 3 something could not be had."
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
app.command(name="preflight", epilog=preflight.EXAMPLE)(preflight.preflight)
app.command(name="follow", epilog=follow.EXAMPLE)(follow.follow)
app.add_typer(broker.app, name="broker")
app.command(name="jar", epilog=jar.EXAMPLE)(jar.jar)


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback.

    A fault of ours keeps its traceback, and exits with 70 (EX_SOFTWARE): 1 would say that
    something was found.
    """
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # at exit it would be too late to say that it failed
    except EoListenerError as error:
        _end(str(error), error.exit_code)
    except OSError as error:
        _end(str(error), 3)
    except Exception:  # noqa: BLE001  # the last place there is: said in full, with a code of its own
        traceback.print_exc()
        sys.exit(70)


def _end(line: str, code: int) -> NoReturn:
    print(f"eo-listener: {line}", file=sys.stderr)
    # What could not be written would be tried once more at exit, and end in another error.
    with contextlib.suppress(OSError):
        sys.stdout.close()
    sys.exit(code)
