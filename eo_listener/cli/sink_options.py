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


def sink_plan(options: SinkOptions) -> SinkPlan | None:
    """Return the requested sinks; None if no topic is named. Raises SettingsError."""
    if not options.sink_topics:
        of_topics = not options.sink_transactions or any(
            option is not None for option in (options.sink_name, options.sink_group)
        )
        of_both = options.sink_query is not None or options.sink_dead_letters is not None
        if of_topics or (of_both and not options.sink_tables):
            raise SettingsError(
                "options of a sink were given, but no topic that it writes to",
                fix="Add --sink-topic TOPIC"
                if of_topics
                else "Add --sink-topic TOPIC, or --sink-table iceberg:... or delta:...",
            )
        return None
    require_names("topic", options.sink_topics)
    require_names("ledger topic", [options.sink_ledger_topic])
    require_names(
        "topic of dead letters",
        () if options.sink_dead_letters is None else [options.sink_dead_letters],
    )
    require_names("group", () if options.sink_group is None else [options.sink_group])
    if options.sink_write_method is not None:
        require_one_of("--sink-write-method", options.sink_write_method, _METHODS)
    if not options.sink_transactions:
        _refuse_with_none(options)
    return SinkPlan(
        topics=tuple(dict.fromkeys(options.sink_topics)),
        key=options.sink_name or sink_key(options.sink_topics),
        query=options.sink_query,
        ledger_topic=options.sink_ledger_topic,
        create=options.sink_create,
        dead_letters=options.sink_dead_letters,
        group=options.sink_group,
        write_method=options.sink_write_method
        or ("driver" if options.sink_transactions else "executors"),
        transactions=options.sink_transactions,
        transaction_timeout=require_seconds(
            "--sink-transaction-timeout", options.sink_transaction_timeout, least=1.0
        ),
    )


def _refuse_with_none(options: SinkOptions) -> None:
    """Raise SettingsError for what a sink refuses with transactions=False."""
    refused = {
        "--sink-group": options.sink_group is not None,
        "--sink-dead-letters": options.sink_dead_letters is not None,
        "--sink-write-method driver": options.sink_write_method == "driver",
    }
    for option, is_given in refused.items():
        if is_given:
            raise SettingsError(
                f"{option} is not possible with --no-sink-transactions",
                cause="the sink does not accept it with transactions=False",
                fix="Remove one of them",
            )
