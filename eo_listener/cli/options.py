"""Options that several commands share, and functions that print."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eo_listener.client_config.validation import require_name, require_ports
from eo_listener.errors import SettingsError
from eo_listener.kafka.group_stores import check
from eo_listener.offsets import TopicPartition

_ADDRESS = re.compile(r"[^\s:,]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<number>[0-9]{1,9})")

BootstrapServers = Annotated[
    str, typer.Option("-b", "--bootstrap-server", help="Kafka's address, host:port.")
]
OptionalServers = Annotated[
    str | None, typer.Option("-b", "--bootstrap-server", help="Kafka's address, host:port.")
]
KafkaProperties = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        "--kafka",
        help="A client property with librdkafka's name, key=value, or @FILE with one property "
        "on each line; repeatable.",
    ),
]
GroupNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="GROUP", help="Consumer groups; * and ? select all groups with matching names."
    ),
]
EveryGroup = Annotated[bool, typer.Option("--all", help="All groups of the cluster.")]
Execute = Annotated[
    bool, typer.Option("--execute", help="Apply the change. Without it, only show the plan.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--storage", help="An option of a checkpoint's storage driver, key=value; repeatable."
    ),
]


def subcommands(meaning: str) -> typer.Typer:
    """Return an application for the subcommands of a command."""
    return typer.Typer(help=meaning, no_args_is_help=True, rich_markup_mode=None)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: typer then offers the fields of its dataclass parameters as options."""
    # Not get_type_hints, which in Python 3.10 hides the Annotated of an argument that may be None.
    arguments = signature(command, eval_str=True).parameters
    bundles: dict[str, type[Any]] = {
        name: argument.annotation
        for name, argument in arguments.items()
        if isinstance(argument.annotation, type) and is_dataclass(argument.annotation)
    }

    @wraps(command)
    def expanded(**values: Any) -> None:
        for name, kind in bundles.items():
            values[name] = kind(**{item.name: values.pop(item.name) for item in fields(kind)})
        command(**values)

    parameters: list[Parameter] = []
    for name, argument in arguments.items():
        kind = bundles.get(name)
        options = signature(kind, eval_str=True).parameters.values() if kind else [argument]
        parameters += options
    vars(expanded)["__signature__"] = Signature(parameters)
    return expanded


def storage_options(pairs: Iterable[str]) -> dict[str, str | bool]:
    """Parse the options of a storage's driver. Raises SettingsError."""
    return dict(map(_storage_option, pairs))


def _storage_option(text: str) -> tuple[str, str | bool]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SettingsError(f"--storage {key!r} is not of the form key=value", fix="Correct it")
    # Drivers treat every text as true, even "false".
    words: dict[str, str | bool] = {"true": True, "false": False}
    return key.strip(), words.get(value.lower(), value)


def utc(milliseconds: int) -> str:
    """Format milliseconds since 1970 as `2013-01-01 05:00:00 UTC`."""
    try:
        moment = dt.datetime.fromtimestamp(milliseconds / 1000, dt.timezone.utc)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{milliseconds} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def as_properties(servers: str, arguments: list[str] | None) -> dict[str, str]:
    """Build a client's properties; `@FILE` in the `arguments` of -X adds the properties in a file.

    Raises SettingsError for an invalid address, an unreadable file, and a property that librdkafka
    does not accept.
    """
    for server in servers.split(","):
        if not _ADDRESS.fullmatch(server.strip()):
            raise SettingsError(
                f"--bootstrap-server must be host:port, got {servers!r}",
                fix="Give host:9092; separate several with commas",
            )
    require_ports(servers)
    properties = {"bootstrap.servers": servers}
    for pair in chain.from_iterable(map(_pairs, arguments or ())):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingsError(
                f"--kafka {key!r} is not of the form key=value",
                fix="Write for example -X security.protocol=SSL, or -X @FILE for a file of them",
            )
        if key.strip() == "bootstrap.servers":
            raise SettingsError("--kafka cannot set bootstrap.servers", fix="Use -b HOST:PORT")
        properties[key.strip()] = value
    check(properties)
    return properties


def _pairs(argument: str) -> Iterable[str]:
    """Return `argument`, or, for `@FILE`, the file's lines without empty lines and comments."""
    if not argument.startswith("@"):
        return (argument,)
    try:
        text = Path(argument[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(
            f"--kafka {argument}: cannot read the file: {reason}",
            fix="Name a file with key=value on each line",
        ) from None
    return list(_lines(argument, text))


def _lines(file: str, text: str) -> Iterator[str]:
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            if not equals or not key.strip():  # not quoted: the line may be a part of a secret
                raise SettingsError(
                    f"--kafka {file}: line {number} is not of the form key=value",
                    fix="Correct it; each property must be on one line",
                )
            yield f"{key.strip()}={value.strip()}"


def parse_partition(text: str) -> TopicPartition:
    """Parse a partition such as `flights-0`. Raises SettingsError."""
    match = _PARTITION.fullmatch(text)
    if match is None:
        raise SettingsError(
            f"--partition must be a topic and a number, got {text!r}", fix="Write flights-0"
        )
    return TopicPartition(match["topic"], int(match["number"]))


def require_cluster(servers: str | None, *options: object) -> None:
    """Raise SettingsError if `servers` is None although one of `options` needs a cluster."""
    if servers is None and any(options):
        raise SettingsError(
            "groups, topics and properties need a cluster, but no cluster is named",
            fix="Add -b HOST:PORT",
        )


def require_names(kind: str, names: Iterable[str]) -> None:
    """Raise SettingsError for a name that is empty or invalid (see `require_name`)."""
    for name in names:
        if not name.strip():
            raise SettingsError(f"the {kind} is an empty string", fix=f"Name the {kind}")
        require_name(kind, name)


def require_groups(names: list[str], *, every: bool) -> None:
    """Raise SettingsError unless the user names groups or requests all groups, but not both."""
    if every == bool(names):
        raise SettingsError(
            "--all cannot be combined with names of groups" if every else "no group is named",
            fix="Name the consumer groups to show, or give --all",
        )


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise the error for `main`; rich would exit with 1, which would mean a finding."""
        raise  # noqa: PLE0704  # rich calls this while it handles the BrokenPipeError


def console() -> Console:
    """Return a console on stdout, with colours on a terminal, and wide lines elsewhere.

    The console prints square brackets as text, since names of groups, topics and queries may
    contain brackets.
    """
    width = None if sys.stdout.isatty() else 200
    return _Console(width=width, highlight=False, markup=False, emoji=False)


def named(text: str) -> Text:
    """Return a text from outside, such as a name, with escapes for terminal control codes."""
    return Text(escaped(text))


def cell(value: object) -> str:
    """Return the text of a value in a table, or `-` if the value is None."""
    return "-" if value is None else str(value)


def new_table(
    columns: Iterable[str],
    numeric: Container[str],
    rows: Iterable[Iterable[object]],
    *,
    title: str = "",
) -> Table:
    """Return a table whose cells wrap and are never cut; numbers are right-aligned."""
    table = Table(title=named(title) if title else None, title_justify="left")
    for name in columns:
        justify: Literal["right", "left"] = "right" if name in numeric else "left"
        table.add_column(named(name), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(each if isinstance(each, Text) else named(cell(each)) for each in row))
    return table


def table_of(
    rows: Sequence[Mapping[str, object]], numeric: Container[str] = (), *, title: str = ""
) -> Table:
    """Return a table of `rows`, each of which maps the same headings to cells."""
    return new_table(rows[0] if rows else (), numeric, (row.values() for row in rows), title=title)


def print_line(out: Console, text: str) -> None:
    """Print a line, escaped by `named` and never wrapped, since some lines are commands to copy."""
    out.print(named(text), soft_wrap=True)


def escaped(text: str, *, keep: str = "") -> str:
    """Return `text` with escapes for unprintable characters, except the characters in `keep`."""
    return "".join(
        character
        if character.isprintable() or character in keep
        else character.encode("unicode_escape").decode()
        for character in text
    )


def picked(value: object, *names: str) -> dict[str, Any]:
    """Return the attributes `names` of `value`, for a JSON document."""
    return {name: getattr(value, name) for name in names}


def print_json(value: object) -> None:
    """Print one JSON document on one line, with escapes for characters that cannot be encoded."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # such as a lone surrogate in the metadata of another program
        text = json.dumps(value)
    print(text, flush=True)
