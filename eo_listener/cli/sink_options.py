"""The options of `eo-listener preflight` that say what a KafkaSink is to do: its own arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from eo_listener.cli.options import seconds
from eo_listener.client_config.identities import sink_key
from eo_listener.client_config.validation import require_name
from eo_listener.model.errors import SettingsError
from eo_listener.preflight.facts import SinkPlan

_METHODS = ("driver", "executors")

Topics = Annotated[
    list[str] | None,
    typer.Option("--sink-topic", help="A topic that a KafkaSink writes to; repeatable."),
]
Query = Annotated[
    str | None,
    typer.Option(
        "--sink-query",
        help="The name of its query, or name= of exactly_once: a part of the transactional id.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--sink-name", help="The sink's name=, where it has one."),
]
LedgerTopic = Annotated[str, typer.Option("--sink-ledger-topic", help="The sink's ledger_topic=")]
Create = Annotated[
    bool,
    typer.Option("--sink-create/--no-sink-create", help="The sink's create=."),
]
DeadLetters = Annotated[
    str | None,
    typer.Option("--sink-dead-letters", help="The sink's dead_letters="),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--sink-group",
        help="The sink's group=; name the source's topics with -t.",
    ),
]
Method = Annotated[str, typer.Option("--sink-write-method", help="The sink's write_method=")]
Timeout = Annotated[
    float,
    typer.Option(
        "--sink-transaction-timeout",
        help="The sink's transaction_timeout=, in seconds.",
    ),
]


def sink_plan(
    topics: Sequence[str] | None,
    *,
    query: str | None,
    name: str | None,
    ledger_topic: str,
    create: bool,
    dead_letters: str | None,
    group: str | None,
    write_method: str,
    transaction_timeout: float,
) -> SinkPlan | None:
    """What was asked for; None where no topic is named. Raises SettingsError."""
    if not topics:
        if any(one is not None for one in (query, name, dead_letters, group)):
            raise SettingsError(
                "options of a sink were given, and no topic that it writes to",
                fix="Add --sink-topic TOPIC",
            )
        return None
    for what, given in (
        *(("topic", one) for one in topics),
        ("ledger topic", ledger_topic),
        ("topic of dead letters", dead_letters),
        ("group", group),
    ):
        if given is not None and not given.strip():
            raise SettingsError(f"a {what} is empty", fix=f"Name the {what} to check")
        if given is not None:
            require_name(what, given)
    if write_method not in _METHODS:
        raise SettingsError(
            f"--sink-write-method must be one of {', '.join(_METHODS)}, got {write_method!r}",
            fix="Give one of these",
        )
    return SinkPlan(
        topics=tuple(dict.fromkeys(topics)),
        key=name or sink_key(topics),
        query=query,
        ledger_topic=ledger_topic,
        create=create,
        dead_letters=dead_letters,
        group=group,
        write_method=write_method,
        transaction_timeout=seconds("sink-transaction-timeout", transaction_timeout, least=1.0),
    )
