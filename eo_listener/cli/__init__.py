"""The command `eo-listener`.

Each subcommand has its own module. This module assembles the subcommands, and prints an error as
one line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from eo_listener import __version__
from eo_listener.cli import audit, checkpoint, follow, group, ledger, preflight, serve, status, txn
from eo_listener.cli.options import escaped
from eo_listener.errors import EoListenerError, ExitCode
from eo_listener.spark import shim


class _Stopped(Exception):  # noqa: N818  # not always an error
    """A Ctrl-C, or a failed write of the output. For both, typer would exit with status 1."""

    def __init__(self, reason: OSError | KeyboardInterrupt) -> None:
        self.reason = reason
        super().__init__(reason)


class _Commands(TyperGroup):
    """The group of all commands. OSErrors and KeyboardInterrupts in them never reach typer."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _passed_on():
            return super().make_context(*arguments, **options)

    def invoke(self, *arguments: Any, **options: Any) -> Any:
        with _passed_on(), _dashes_explained():
            return super().invoke(*arguments, **options)


@contextlib.contextmanager
def _passed_on() -> Iterator[None]:
    try:
        yield
    except (OSError, KeyboardInterrupt) as reason:
        raise _Stopped(reason) from reason


@contextlib.contextmanager
def _dashes_explained() -> Iterator[None]:
    """In the error for an unknown option, explain how to give a name that begins with a dash."""
    try:
        yield
    except Exception as error:
        # The class is from click, or from typer's copy of click, in which it has no public name.
        if type(error).__name__ == "NoSuchOption":
            _explain_dash(error)
        raise


def _explain_dash(error: Any) -> None:
    command = error.ctx.command if error.ctx else None
    takes_names = command and any(
        parameter.param_type_name == "argument" for parameter in command.params
    )
    if takes_names and not error.possibilities:
        message = error.message.rstrip(".")
        error.message = (
            f"{message}. Put a name that begins with a dash last, after --: ... -- -NAME"
        )


app = typer.Typer(
    cls=_Commands,
    name="eo-listener",
    help="Show and prove how far Spark's queries have read in Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's tables cut the names of options on a narrow terminal
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"eo-listener {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit status: 0 fine, 1 a problem was found, 2 wrong use, 3 something was unavailable, "
    "70 a fault in eo-listener, 130 Ctrl-C."
)
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Show and prove how far Spark's queries have read in Kafka."""


app.command(name="status", epilog=status.EXAMPLE)(status.status)
app.command(name="serve", epilog=serve.EXAMPLE)(serve.serve)
app.command(name="audit", epilog=audit.EXAMPLE)(audit.audit)
app.command(name="preflight", epilog=preflight.EXAMPLE)(preflight.preflight)
app.command(name="follow", epilog=follow.EXAMPLE)(follow.follow)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(group.app, name="group")
app.add_typer(ledger.app, name="ledger")
app.add_typer(txn.app, name="txn")


@app.command(epilog='Example: spark-submit --jars "$(eo-listener jar)" job.py')
def jar() -> None:
    """Print the path of the jar for Spark's JVM, and nothing else."""
    print(shim.jar())


def main() -> None:
    """Run the command line; print an error as one line on stderr, without a traceback.

    For a fault in eo-listener, the function prints the traceback, and exits with 70 (EX_SOFTWARE),
    because 1 means that the command has found a problem.
    """
    _require_streams()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # at exit it would be too late to report an error
    except _Stopped as stopped:
        _end_stopped(stopped.reason)
    except (OSError, KeyboardInterrupt) as reason:
        _end_stopped(reason)
    except EoListenerError as error:
        _end(str(error), error.exit_code)
    except Exception:  # noqa: BLE001  # the outermost handler: prints the error, and exits with 70
        with contextlib.suppress(OSError):
            traceback.print_exc()
        _leave(ExitCode.FAULT)


def _require_streams() -> None:
    """Make sure that no file opened later becomes standard output or standard error."""
    if sys.stderr is None:
        sys.stderr = _nowhere(2)
    if sys.stdout is None:
        sys.stdout = _nowhere(1)
        _end("standard output is closed. Fix: redirect it, > /dev/null", ExitCode.UNREACHABLE)


def _nowhere(descriptor: int) -> TextIO:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    return open(descriptor, "w", encoding="utf-8")  # never closed


def _end_stopped(reason: OSError | KeyboardInterrupt) -> NoReturn:
    if isinstance(reason, KeyboardInterrupt):
        _end("stopped", ExitCode.STOPPED)
    if isinstance(reason, BrokenPipeError):
        _leave(ExitCode.READER_GONE)
    _end(str(reason), ExitCode.UNREACHABLE)


def _end(line: str, code: int) -> NoReturn:
    shown = escaped(line, keep="\n")  # parts of the line come from outside, such as names in a file
    with contextlib.suppress(OSError):
        print(f"eo-listener: {shown}", file=sys.stderr, flush=True)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Exit with `code`, even if some output could not be written.

    Otherwise Python would try again to write the output, fail, and exit with a different code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    sys.exit(code)
