"""The options of `eo-listener preflight` that say what a KafkaSink is to do: its own arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from eo_listener.cli import completion
from eo_listener.cli.options import require_names
from eo_listener.client_config.identities import sink_key
from eo_listener.model.argument_checks import require_one_of, require_seconds
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
Method = Annotated[
    str | None,
    typer.Option(
        "--sink-write-method",
        autocompletion=completion.one_of(_METHODS),
        help="The sink's write_method=, by default as there.",
    ),
]
Transactions = Annotated[
    bool,
    typer.Option("--sink-transactions/--no-sink-transactions", help="The sink's transactions=."),
]
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
    tables: Sequence[str] | None,
    query: str | None,
    name: str | None,
    ledger_topic: str,
    create: bool,
    dead_letters: str | None,
    group: str | None,
    write_method: str | None,
    transactions: bool,
    transaction_timeout: float,
) -> SinkPlan | None:
    """What was asked for; None where no topic is named. Raises SettingsError."""
    if not topics:
        of_topics = not transactions or any(one is not None for one in (name, group))
        of_both = query is not None or dead_letters is not None
        if of_topics or (of_both and not tables):
            raise SettingsError(
                "options of a sink were given, and no topic that it writes to",
                fix="Add --sink-topic TOPIC"
                if of_topics
                else "Add --sink-topic TOPIC, or --sink-table iceberg:... or delta:...",
            )
        return None
    require_names("topic", topics)
    require_names("ledger topic", [ledger_topic])
    require_names("topic of dead letters", () if dead_letters is None else [dead_letters])
    require_names("group", () if group is None else [group])
    if write_method is not None:
        require_one_of("--sink-write-method", write_method, _METHODS)
    if not transactions:
        _refuse_with_none(group=group, dead_letters=dead_letters, write_method=write_method)
    return SinkPlan(
        topics=tuple(dict.fromkeys(topics)),
        key=name or sink_key(topics),
        query=query,
        ledger_topic=ledger_topic,
        create=create,
        dead_letters=dead_letters,
        group=group,
        write_method=write_method or ("driver" if transactions else "executors"),
        transactions=transactions,
        transaction_timeout=require_seconds(
            "--sink-transaction-timeout", transaction_timeout, least=1.0
        ),
    )


def _refuse_with_none(
    *, group: str | None, dead_letters: str | None, write_method: str | None
) -> None:
    """Raise SettingsError for what a sink refuses with transactions=False."""
    given = {
        "--sink-group": group is not None,
        "--sink-dead-letters": dead_letters is not None,
        "--sink-write-method driver": write_method == "driver",
    }
    for option, is_given in given.items():
        if is_given:
            raise SettingsError(
                f"{option} is not possible with --no-sink-transactions",
                cause="the sink refuses it with transactions=False",
                fix="Leave one of them out",
            )
