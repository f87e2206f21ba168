"""The options of `eo-listener preflight` that say what a KafkaSink is to do: its own arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from eo_listener.cli import completion
from eo_listener.cli.options import require_names
from eo_listener.client_config.identities import LEDGER_TOPIC, sink_key
from eo_listener.client_config.kafka_options import TRANSACTION_TIMEOUT
from eo_listener.errors import SettingsError
from eo_listener.model.argument_checks import require_one_of, require_seconds
from eo_listener.preflight.facts import SinkPlan

_METHODS = ("driver", "executors")


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """The options that say what a sink is to do."""

    sink_topics: Annotated[
        list[str] | None,
        typer.Option("--sink-topic", help="A topic that a KafkaSink writes to; repeatable."),
    ] = None
    sink_query: Annotated[
        str | None,
        typer.Option(
            help="The name of its query, or name= of exactly_once: part of the transactional id."
        ),
    ] = None
    sink_name: Annotated[str | None, typer.Option(help="The sink's name=, if it has one.")] = None
    sink_ledger_topic: Annotated[str, typer.Option(help="The sink's ledger_topic=")] = LEDGER_TOPIC
    sink_create: Annotated[bool, typer.Option(help="The sink's create=.")] = True
    sink_dead_letters: Annotated[str | None, typer.Option(help="The sink's dead_letters=")] = None
    sink_group: Annotated[
        str | None, typer.Option(help="The sink's group=; name the source's topics with -t.")
    ] = None
    sink_write_method: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.one_of(_METHODS),
            help="The sink's write_method=, with the same default.",
        ),
    ] = None
    sink_transactions: Annotated[bool, typer.Option(help="The sink's transactions=.")] = True
    sink_transaction_timeout: Annotated[
        float, typer.Option(help="The sink's transaction_timeout=, in seconds.")
    ] = TRANSACTION_TIMEOUT
    sink_tables: Annotated[
        list[str] | None,
        typer.Option(
            "--sink-table",
            help="A table that an IcebergSink or a DeltaSink writes to: "
            "iceberg:CATALOG.NAMESPACE.TABLE, delta:TABLE or delta:/PATH; repeatable.",
        ),
    ] = None


def sink_plan(of: SinkOptions) -> SinkPlan | None:
    """Return the requested sinks; None if no topic is named. Raises SettingsError."""
    if not of.sink_topics:
        of_topics = not of.sink_transactions or any(
            one is not None for one in (of.sink_name, of.sink_group)
        )
        of_both = of.sink_query is not None or of.sink_dead_letters is not None
        if of_topics or (of_both and not of.sink_tables):
            raise SettingsError(
                "options of a sink were given, but no topic that it writes to",
                fix="Add --sink-topic TOPIC"
                if of_topics
                else "Add --sink-topic TOPIC, or --sink-table iceberg:... or delta:...",
            )
        return None
    require_names("topic", of.sink_topics)
    require_names("ledger topic", [of.sink_ledger_topic])
    require_names(
        "topic of dead letters", () if of.sink_dead_letters is None else [of.sink_dead_letters]
    )
    require_names("group", () if of.sink_group is None else [of.sink_group])
    if of.sink_write_method is not None:
        require_one_of("--sink-write-method", of.sink_write_method, _METHODS)
    if not of.sink_transactions:
        _refuse_with_none(of)
    return SinkPlan(
        topics=tuple(dict.fromkeys(of.sink_topics)),
        key=of.sink_name or sink_key(of.sink_topics),
        query=of.sink_query,
        ledger_topic=of.sink_ledger_topic,
        create=of.sink_create,
        dead_letters=of.sink_dead_letters,
        group=of.sink_group,
        write_method=of.sink_write_method or ("driver" if of.sink_transactions else "executors"),
        transactions=of.sink_transactions,
        transaction_timeout=require_seconds(
            "--sink-transaction-timeout", of.sink_transaction_timeout, least=1.0
        ),
    )


def _refuse_with_none(of: SinkOptions) -> None:
    """Raise SettingsError for what a sink refuses with transactions=False."""
    given = {
        "--sink-group": of.sink_group is not None,
        "--sink-dead-letters": of.sink_dead_letters is not None,
        "--sink-write-method driver": of.sink_write_method == "driver",
    }
    for option, is_given in given.items():
        if is_given:
            raise SettingsError(
                f"{option} is not possible with --no-sink-transactions",
                cause="the sink does not accept it with transactions=False",
                fix="Remove one of them",
            )
