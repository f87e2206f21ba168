"""`eo-listener preflight`: checks that Kafka, this machine and sinks fit the needs of a query."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, redirect_stdout
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from eo_listener.cli.audit import COLOURS
from eo_listener.cli.options import (
    Json,
    KafkaProperties,
    OptionalServers,
    as_properties,
    console,
    new_table,
    print_json,
    print_line,
    require_cluster,
    require_names,
)
from eo_listener.cli.spark_options import SparkConf, spark_for, spark_settings
from eo_listener.errors import EoListenerError, ExitCode, SettingsError
from eo_listener.kafka.group_stores import check
from eo_listener.model.check_finding import CheckFinding, checked, note, to_act_on
from eo_listener.model.ledger_place import LedgerStore, place_of
from eo_listener.preflight import child_process
from eo_listener.preflight.facts import Request
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.session.local_check import check_machine
from eo_listener.spark.session.local_spark import LocalSpark

EXAMPLE = "Example: eo-listener preflight -b localhost:9092 -g flights-to-pg --sink job:delays"


def preflight(
    *,
    servers: OptionalServers = None,
    groups: Annotated[
        list[str] | None, typer.Option("-g", "--group", help="A group to commit to; repeatable.")
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="A topic to read; repeatable.")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="The planned way to commit: simple, member or transactional.")
    ] = "simple",
    properties: KafkaProperties = None,
    sinks: Annotated[
        list[str] | None,
        typer.Option(
            "--sink",
            metavar="MODULE:NAME",
            help="A sink to check, as module:name. The command imports the module, also from the "
            "working directory; repeatable.",
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="The name of the sinks' query, or name= of exactly_once.")
    ] = None,
    spark_conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Check machine, cluster and sinks before a query runs.

    Changes nothing. Does not compare clocks: Kafka does not report its clock.
    """
    require_cluster(servers, groups, topics, properties)
    settings, named = spark_settings(spark_conf or ()), [*map(_named_sink, sinks or ())]
    findings, reached = list(check_machine()), True
    if servers is not None:
        require_names("group", groups or ())
        require_names("topic", topics or ())
        client = as_properties(servers, properties)
        check(client, mode)
        answer = child_process.run(
            Request(
                properties=client, groups=tuple(groups or ()), topics=tuple(topics or ()), mode=mode
            )
        )
        findings += answer.findings
        reached = answer.reached
    findings += _sink_findings(named, query, settings)
    if as_json:
        print_json({"findings": [finding.document() for finding in findings]})
    else:
        _print(findings)
    if not reached:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if to_act_on(findings):
        raise typer.Exit(ExitCode.FOUND)


def _named_sink(name: str) -> Any:
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


def _sink_findings(
    sinks: Sequence[Any], query: str | None, settings: Mapping[str, str]
) -> Iterator[CheckFinding]:
    """Yield the findings of the sinks; start Spark if a sink needs it and no module has done so."""
    places = [place for sink in sinks if (place := place_of(sink)) is not None]
    stores = {LedgerStore.from_address(place.address) for place in places}
    tables = [LedgerAddress(store=store, place="") for store in stores if store and store.in_table]
    with closing(spark_for(tables, settings)) as spark:
        if tables and not _has_session():
            yield from checked("this machine", _started(spark))
        for sink in sinks:
            yield from sink.check(query)


def _has_session() -> bool:
    from eo_listener.spark.jvm.sessions import candidate_sessions  # noqa: PLC0415  # needs pyspark

    return bool(candidate_sessions())


def _started(spark: LocalSpark) -> Iterator[CheckFinding]:
    yield note(
        f"Spark {spark.session().version}",
        "no module of the sinks made a Spark session, so the command checks tables in its own "
        "session, with --spark-conf, spark-defaults.conf and the libraries of configure()",
        "the query's session needs these libraries too: configure(builder, iceberg=True) or "
        "delta=True",
    )


def _print(findings: Sequence[CheckFinding]) -> None:
    """Print a table, then each advice on an unwrapped line, since some are commands to copy."""
    out = console()
    rows = [
        (Text(finding.level.value, style=COLOURS[finding.level]), finding.about, finding.what)
        for finding in findings
    ]
    out.print(new_table(("", "about", "found"), (), rows))
    for finding in findings:
        if finding.advice:
            print_line(out, f"{finding.level.value}, {finding.about}: {finding.advice}")
    count = len(to_act_on(findings))
    out.print(Text(f"to act on: {count}" if count else "nothing to act on"))
