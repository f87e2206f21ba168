"""Imports the sinks that a command line names as module:name."""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from eo_listener.errors import EoListenerError, SettingsError

SinkNames = Annotated[
    list[str] | None,
    typer.Option(
        "--sink",
        metavar="MODULE:NAME",
        help="A sink to check, as module:name. The command imports the module, also from the "
        "working directory; repeatable.",
    ),
]


def named_sink(name: str) -> Any:
    """Import the sink with this name. Raises SettingsError."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise SettingsError(
            f"--sink {name!r} is not of the form module:name",
            fix="For delays = DeltaSink(...) in job.py, write --sink job:delays",
        )
    imported = _imported(module)
    try:
        sink = attrgetter(attribute)(imported)
    except AttributeError:
        raise SettingsError(
            f"--sink {name}: the module {module} has no {attribute}",
            cause=f"it is {getattr(imported, '__file__', None) or 'a package without a file'}",
            fix="Name a variable of the module, not of one of its functions",
        ) from None
    if isinstance(sink, type) or not callable(getattr(sink, "check", None)):
        raise SettingsError(
            f"--sink {name}: it is not a sink with a method check, but of type "
            f"{type(sink).__name__}",
            fix="Name a variable that holds a sink; a sink of your own needs check(query)",
        )
    return sink


def _imported(module: str) -> Any:
    """Import a module as `python -m` would: the working directory comes first."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):  # standard output is for the findings
            return importlib.import_module(module)
    except EoListenerError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the user's module may raise anything
        missing = getattr(error, "name", None) or ""
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{missing}."):
            raise SettingsError(
                f"--sink: there is no module {missing}",
                cause=f"it is neither installed for {sys.executable}, nor in {folder}",
                fix="Run the command in the folder of the module, or set PYTHONPATH",
            ) from None
        raise SettingsError(  # without the error's own text, which may quote a password
            f"--sink: importing the module {module} raised {type(error).__name__}",
            fix=f"Run python -c 'import {module}' to see where",
        ) from None
