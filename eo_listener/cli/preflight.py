"""`eo-listener preflight`: check that Kafka and this machine have what commits need."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.text import Text

from eo_listener.cli import table_check
from eo_listener.cli.options import (
    Json,
    KafkaProperties,
    as_properties,
    console,
    named,
    new_table,
    print_json,
    print_line,
    require_cluster,
    require_names,
    with_options,
)
from eo_listener.cli.sink_options import SinkOptions, sink_plan
from eo_listener.cli.spark_options import SparkConf, spark_settings
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.errors import ExitCode, KafkaError
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.kafka.group_stores import check
from eo_listener.model.argument_checks import require_seconds
from eo_listener.preflight import child_process
from eo_listener.preflight.facts import SinkPlan
from eo_listener.preflight.findings import CheckFinding, Level, problem, to_act_on
from eo_listener.preflight.local_checks import judge_local
from eo_listener.preflight.request import Request
from eo_listener.preflight.table_facts import TablePlan
from eo_listener.spark.session.local_facts import read_local_facts

EXAMPLE = "Example: eo-listener preflight -b localhost:9092 -g flights-to-pg -t flights"

_COLOURS = {Level.FINE: "green", Level.NOTE: "", Level.WARNING: "yellow", Level.PROBLEM: "red"}


@with_options
def preflight(
    *,
    servers: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--bootstrap-server",
            help="Kafka's address, host:port. Without it only this machine is checked.",
        ),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("-g", "--group", help="A group to commit to; repeatable."),
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="A topic to read; repeatable.")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="How commits will be made: simple, member or transactional.")
    ] = "simple",
    recommit_interval: Annotated[
        float, typer.Option(help="Seconds between two commits of all offsets.")
    ] = RECOMMIT_INTERVAL,
    properties: KafkaProperties = None,
    sink: SinkOptions,
    spark_conf: SparkConf = None,
    stdin: Annotated[bool, typer.Option("--stdin", hidden=True)] = False,
    as_json: Json = False,
) -> None:
    """Check Kafka, this machine and the tables of sinks before a query uses them.

    Changes nothing. Clocks are not compared: Kafka does not report its own.
    """
    recommit_interval = require_seconds("--recommit-interval", recommit_interval, least=1.0)
    request = _request(
        servers, groups, topics, mode, recommit_interval, properties, sink_plan(sink)
    )
    plans = table_check.table_plans(sink)
    _report(request, plans, spark_settings(spark_conf or ()), as_json=as_json, stdin=stdin)


def _report(
    request: Request | None,
    tables: Sequence[TablePlan],
    settings: Mapping[str, str],
    *,
    as_json: bool,
    stdin: bool,
) -> None:
    """Check, print, and end with the exit code."""
    if stdin:  # the child of such a command, or of a driver, which has Spark and Java anyhow
        answer = _check(Request.parse(sys.stdin.read()))
        findings, reached = list(answer.findings), answer.reached
    else:
        findings, reached = list(judge_local(read_local_facts())), True
        if request is not None:
            answer = child_process.run(request)
            findings += answer.findings
            reached = answer.reached
        findings += table_check.table_findings(tables, settings)
    if as_json:
        print_json({"findings": [finding.document() for finding in findings]})
    else:
        _print(findings)
    if not reached:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if to_act_on(findings):
        raise typer.Exit(ExitCode.FOUND)


def _request(
    servers: str | None,
    groups: Sequence[str] | None,
    topics: Sequence[str] | None,
    mode: str,
    recommit_interval: float,
    properties: list[str] | None,
    sink: SinkPlan | None,
) -> Request | None:
    require_cluster(servers, groups, topics, properties, sink)
    if servers is None:
        return None
    require_names("group", groups or ())
    require_names("topic", topics or ())
    client = as_properties(servers, properties)
    check(client, mode)
    return Request(
        properties=client,
        groups=tuple(groups or ()),
        topics=tuple(topics or ()),
        mode=mode,
        recommit_interval=recommit_interval,
        sink=sink,
    )


def _check(request: Request) -> child_process.Answer:
    """Check in this process, which may not survive it."""
    check(request.properties, request.mode)
    inspector = ClusterDescriber(request.properties)
    try:
        return child_process.Answer(findings=tuple(request.findings(inspector)), reached=True)
    except KafkaError as error:
        return child_process.Answer(findings=(_unreachable(request, error),), reached=False)
    finally:
        inspector.close()


def _unreachable(request: Request, error: KafkaError) -> CheckFinding:
    cause = f" ({error.cause})" if error.cause else ""
    return problem(
        f"cluster {request.properties['bootstrap.servers']}",
        f"{error.problem}{cause}",
        f"{error.fix or 'Check the permissions of this client'} (-b/--bootstrap-server, -X)",
    )


def _print(findings: Sequence[CheckFinding]) -> None:
    """A table, and below it what to do: a line each, whole, since some are commands to copy."""
    out = console()
    table = new_table(("", "about", "found"))
    for finding in findings:
        level = Text(finding.level.value, style=_COLOURS[finding.level])
        table.add_row(level, named(finding.about), named(finding.what))
    out.print(table)
    for finding in findings:
        if finding.advice:
            print_line(out, f"{finding.level.value}, {finding.about}: {finding.advice}")
    count = len(to_act_on(findings))
    out.print(Text(f"to act on: {count}" if count else "nothing to act on"))
