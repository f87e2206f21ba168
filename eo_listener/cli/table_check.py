"""Checks the tables of sinks for `eo-listener preflight`, with a Spark of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from eo_listener.cli.sink_options import SinkOptions
from eo_listener.cli.spark_options import spark_for
from eo_listener.errors import EoListenerError, SettingsError
from eo_listener.model.ledger_place import LedgerStore
from eo_listener.preflight.findings import CheckFinding, Level, problem
from eo_listener.preflight.table_checks import judge_delta, judge_iceberg, judge_runtime
from eo_listener.preflight.table_facts import ICEBERG, TablePlan
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.session.local_spark import LocalSpark


def table_plans(options: SinkOptions) -> tuple[TablePlan, ...]:
    """Return the requested tables. Raises SettingsError."""
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


def table_findings(
    plans: Sequence[TablePlan], settings: Mapping[str, str]
) -> Iterator[CheckFinding]:
    """Look at all of them, and judge. Raises SettingsError, and MissingExtraError."""
    for kind in dict.fromkeys(plan.kind for plan in plans):
        of_kind = [plan for plan in plans if plan.kind == kind]
        findings = list(_runtime(kind, settings))
        yield from findings
        if any(finding.level is Level.PROBLEM for finding in findings):
            continue  # no table can be read by it
        addresses = [LedgerAddress(store=LedgerStore(kind), place=plan.name) for plan in of_kind]
        with closing(spark_for(addresses, settings)) as spark:
            for plan in of_kind:
                yield from _table(plan, spark)


def _address(text: str) -> LedgerAddress:
    address = LedgerAddress.parse(text)
    if not address.in_table:
        raise SettingsError(
            "--sink-table must be iceberg:CATALOG.NAMESPACE.TABLE, delta:TABLE or delta:/PATH",
            cause="it may hold a password, so its value is not shown",
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
