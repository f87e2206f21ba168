"""`eo-listener preflight`: checks that Kafka, this machine and tables fit the needs of a query."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from eo_listener.audit.position_finding import Severity
from eo_listener.cli import completion
from eo_listener.cli.audit import COLOURS
from eo_listener.cli.options import (
    Json,
    KafkaProperties,
    as_properties,
    console,
    print_json,
    print_line,
    require_cluster,
    require_names,
    table_of,
    with_options,
)
from eo_listener.cli.spark_options import SparkConf, spark_for, spark_settings
from eo_listener.client_config.identities import LEDGER_TOPIC, sink_key
from eo_listener.client_config.kafka_options import TRANSACTION_TIMEOUT
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.errors import EoListenerError, ExitCode, KafkaError, SettingsError
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.kafka.group_stores import check
from eo_listener.model.argument_checks import require_one_of, require_seconds
from eo_listener.model.ledger_place import LedgerStore
from eo_listener.preflight import child_process
from eo_listener.preflight.facts import SinkPlan
from eo_listener.preflight.findings import CheckFinding, described, problem, to_act_on
from eo_listener.preflight.local_checks import judge_local
from eo_listener.preflight.request import Request
from eo_listener.preflight.table_checks import judge_delta, judge_iceberg, judge_runtime
from eo_listener.preflight.table_facts import ICEBERG, TablePlan
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.session.local_facts import read_local_facts
from eo_listener.spark.session.local_spark import LocalSpark

EXAMPLE = "Example: eo-listener preflight -b localhost:9092 -g flights-to-pg -t flights"

_METHODS = ("driver", "executors")


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterOptions:
    """The options that describe a cluster, and the planned commits to its groups."""

    servers: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--bootstrap-server",
            help="Kafka's address, host:port. Without it, the command checks only this machine.",
        ),
    ] = None
    groups: Annotated[
        list[str] | None, typer.Option("-g", "--group", help="A group to commit to; repeatable.")
    ] = None
    topics: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="A topic to read; repeatable.")
    ] = None
    mode: Annotated[
        str, typer.Option(help="The planned way to commit: simple, member or transactional.")
    ] = "simple"
    recommit_interval: Annotated[
        float, typer.Option(help="Seconds between two commits of all offsets.")
    ] = RECOMMIT_INTERVAL
    properties: KafkaProperties = None

    def request(self, sink: SinkPlan | None) -> Request | None:
        """Return the request, or None if the user names no cluster. Raises SettingsError."""
        interval = require_seconds("--recommit-interval", self.recommit_interval, least=1.0)
        require_cluster(self.servers, self.groups, self.topics, self.properties, sink)
        if self.servers is None:
            return None
        require_names("group", self.groups or ())
        require_names("topic", self.topics or ())
        client = as_properties(self.servers, self.properties)
        check(client, self.mode)
        return Request(
            properties=client,
            groups=tuple(self.groups or ()),
            topics=tuple(self.topics or ()),
            mode=self.mode,
            recommit_interval=interval,
            sink=sink,
        )


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """The options that describe the sinks of the query."""

    sink_topics: Annotated[
        list[str] | None,
        typer.Option("--sink-topic", help="A topic that a KafkaSink writes to; repeatable."),
    ] = None
    sink_query: Annotated[
        str | None,
        typer.Option(
            help="The sink's query, or name= of exactly_once: part of the transactional id."
        ),
    ] = None
    sink_name: Annotated[str | None, typer.Option(help="The sink's name=, if it has one.")] = None
    sink_ledger_topic: Annotated[str, typer.Option(help="The sink's ledger_topic=.")] = LEDGER_TOPIC
    sink_create: Annotated[bool, typer.Option(help="The sink's create=.")] = True
    sink_dead_letters: Annotated[str | None, typer.Option(help="The sink's dead_letters=.")] = None
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


@with_options
def preflight(
    *,
    cluster: ClusterOptions,
    sink: SinkOptions,
    spark_conf: SparkConf = None,
    stdin: Annotated[bool, typer.Option("--stdin", hidden=True)] = False,
    as_json: Json = False,
) -> None:
    """Check Kafka, this machine and the tables of sinks before a query uses them.

    Changes nothing. Does not compare clocks: Kafka does not report its clock.
    """
    request = cluster.request(_sink_plan(sink))
    tables, settings = _table_plans(sink), spark_settings(spark_conf or ())
    reached = True
    if stdin:  # the child of this command or of a driver, so that this machine is checked elsewhere
        answer = _check(Request.parse(sys.stdin.read()))
        findings, reached = list(answer.findings), answer.reached
    else:
        findings = list(judge_local(read_local_facts()))
        if request is not None:
            answer = child_process.run(request)
            findings += answer.findings
            reached = answer.reached
        findings += _table_findings(tables, settings)
    if as_json:
        print_json({"findings": [finding.document() for finding in findings]})
    else:
        _print(findings)
    if not reached:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if to_act_on(findings):
        raise typer.Exit(ExitCode.FOUND)


def _sink_plan(options: SinkOptions) -> SinkPlan | None:
    """Return the planned KafkaSink, or None if the user names no topic. Raises SettingsError."""
    if not options.sink_topics:
        of_topics = not options.sink_transactions or any(
            option is not None for option in (options.sink_name, options.sink_group)
        )
        of_both = options.sink_query is not None or options.sink_dead_letters is not None
        if of_topics or (of_both and not options.sink_tables):
            raise SettingsError(
                "options of a sink were given, but no topic to which it writes",
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
        _refuse_without_transactions(options)
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


def _refuse_without_transactions(options: SinkOptions) -> None:
    """Raise SettingsError for an option that a sink refuses with transactions=False."""
    refused = {
        "--sink-group": options.sink_group is not None,
        "--sink-dead-letters": options.sink_dead_letters is not None,
        "--sink-write-method driver": options.sink_write_method == "driver",
    }
    for option, is_given in refused.items():
        if is_given:
            raise SettingsError(
                f"{option} is not possible with --no-sink-transactions",
                cause="the sink does not accept this option with transactions=False",
                fix="Remove one of them",
            )


def _table_plans(options: SinkOptions) -> tuple[TablePlan, ...]:
    """Return the planned sinks of tables. Raises SettingsError."""
    create, dead_letters = options.sink_create, options.sink_dead_letters
    plans = [
        TablePlan(
            kind=address.store.value, name=address.place, query=options.sink_query, create=create
        )
        for address in map(_address, options.sink_tables or ())
    ]
    if dead_letters is not None and any(plan.kind == ICEBERG for plan in plans):
        plan = TablePlan(kind=ICEBERG, name=dead_letters, create=create, letters=True)
        return (*plans, plan)
    if dead_letters is not None and plans:
        raise SettingsError(
            "--sink-dead-letters is given, but a DeltaSink has no dead letters", fix="Remove it"
        )
    return tuple(plans)


def _table_findings(
    plans: Sequence[TablePlan], settings: Mapping[str, str]
) -> Iterator[CheckFinding]:
    """Yield the findings about the tables. Raises SettingsError and MissingExtraError."""
    for kind in dict.fromkeys(plan.kind for plan in plans):
        of_kind = [plan for plan in plans if plan.kind == kind]
        findings = list(_runtime(kind, settings))
        yield from findings
        if any(finding.level is Severity.PROBLEM for finding in findings):
            continue  # this Spark can read no table
        addresses = [LedgerAddress(store=LedgerStore(kind), place=plan.name) for plan in of_kind]
        with closing(spark_for(addresses, settings)) as spark:
            for plan in of_kind:
                yield from _table(plan, spark)


def _address(text: str) -> LedgerAddress:
    address = LedgerAddress.parse(text)
    if not address.in_table:
        raise SettingsError(
            "--sink-table must be iceberg:CATALOG.NAMESPACE.TABLE, delta:TABLE or delta:/PATH",
            cause="the value is not shown, since it may contain a password",
            fix="Write one of these; for a KafkaSink's topics use --sink-topic",
        )
    return address


def _runtime(kind: str, settings: Mapping[str, str]) -> Iterator[CheckFinding]:
    from eo_listener.spark.session.table_runtimes import read_runtime  # noqa: PLC0415  # no other check needs it

    try:
        facts = read_runtime(kind, settings)
    except EoListenerError as error:
        yield problem("this machine", error.problem, error.fix or "")
        return
    yield from judge_runtime(kind, facts)


def _table(plan: TablePlan, spark: LocalSpark) -> Iterator[CheckFinding]:
    if plan.kind == ICEBERG:
        from eo_listener.sinks.iceberg.table_describer import describe  # noqa: PLC0415  # needs pyspark

        yield from judge_iceberg(plan, describe(plan, spark))
    else:
        from eo_listener.sinks.delta import table_describer  # noqa: PLC0415  # needs pyspark

        yield from judge_delta(plan, table_describer.describe(plan, spark))


def _check(request: Request) -> child_process.Answer:
    """Check a cluster in this process. The check may crash the process."""
    check(request.properties, request.mode)
    inspector = ClusterDescriber(request.properties)
    try:
        return child_process.Answer(findings=tuple(request.findings(inspector)), reached=True)
    except KafkaError as error:
        return child_process.Answer(findings=(_unreachable(request, error),), reached=False)
    finally:
        inspector.close()


def _unreachable(request: Request, error: KafkaError) -> CheckFinding:
    return problem(
        f"cluster {request.properties['bootstrap.servers']}",
        described(error),
        f"{error.fix or 'Check the permissions of this client'} (-b/--bootstrap-server, -X)",
    )


def _print(findings: Sequence[CheckFinding]) -> None:
    """Print a table, then each advice on an unwrapped line, since some are commands to copy."""
    out = console()
    rows = [
        {
            "": Text(finding.level.value, style=COLOURS[finding.level]),
            "about": finding.about,
            "found": finding.what,
        }
        for finding in findings
    ]
    out.print(table_of(rows))
    for finding in findings:
        if finding.advice:
            print_line(out, f"{finding.level.value}, {finding.about}: {finding.advice}")
    count = len(to_act_on(findings))
    out.print(Text(f"to act on: {count}" if count else "nothing to act on"))
