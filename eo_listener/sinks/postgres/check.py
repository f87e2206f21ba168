"""Checks tables, rights and ledger of a PostgresSink before its first batch. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import sql

from eo_listener.model.check_finding import Findings, fine, problem
from eo_listener.sinks.ledger_sql import HEADS, stored_ledgers
from eo_listener.sinks.postgres.catalog import check_durable, existing_tables, identifier, oid, run
from eo_listener.sinks.postgres.connection import connect
from eo_listener.sinks.postgres.ledger import ledger_sql
from eo_listener.sinks.table_checks import judge_absent, judge_ledgers
from eo_listener.sinks.target import Mode

if TYPE_CHECKING:
    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import TransactionWriter

_LACKING: Final = """
SELECT need FROM unnest(%s::text[]) AS need WHERE NOT has_table_privilege(to_regclass(%s), need)
"""
_ROLE: Final = "SELECT quote_ident(current_user), has_schema_privilege(%s, 'CREATE')"


def findings(writer: TransactionWriter, query: str | None) -> Findings:
    """Yield the findings; `query` is the query's name, if it is known.

    Raises psycopg.Error, and EoListenerError if the server does not answer, or the sink would
    refuse a table.
    """
    with connect(writer.access, writer.label, "eo_listener check") as link:
        yield fine(writer.label, "the server answers, and is not a standby")
        yield from _judge(link, writer, query)


def _judge(link: Connection, writer: TransactionWriter, query: str | None) -> Findings:
    ledger, target = writer.ledger, writer.target
    schema = ledger.schema
    role, may_create = link.execute(_ROLE, (schema,)).fetchone() or ("", False)
    rights = ["INSERT"]
    if target.mode is Mode.UPSERT:
        rights += ["SELECT", "UPDATE", *(["DELETE"] if target.delete_when else [])]
    needs = {} if target.apply else {target.table: rights}
    if target.dead_letters is not None:
        needs[target.dead_letters] = ["INSERT"]
    existing = existing_tables(link, schema, list(needs))
    for name, needed in needs.items():
        table = identifier(schema, name).as_string(link)
        if name not in existing:
            yield judge_absent(f"table {table}", "PostgresSink", create=target.create)
            continue
        check_durable(link, schema, name, existing[name].not_durable)
        lacking = [need for (need,) in link.execute(_LACKING, (needed, table))]
        if lacking:
            grant = f"GRANT {', '.join(lacking)} ON {table} TO {role}"
            yield problem(f"table {table}", f"{role} may not {' and '.join(lacking)}", grant)
        else:
            yield fine(f"table {table}", f"it exists; {role} may {', '.join(needed)}")
    has_ledger, own = oid(link, schema, HEADS) is not None, []
    if has_ledger or not target.create:
        ledger.applied(link, writer.query, create=False)
        stored = stored_ledgers(run(link, ledger_sql(schema).all_heads()).fetchall())
        own = [heads for place, heads in stored.items() if place.sink == ledger.key]
    yield from judge_ledgers(ledger.label, query, own)
    if target.create and not may_create and (not has_ledger or existing.keys() != needs.keys()):
        quoted = sql.Identifier(schema).as_string(link)
        yield problem(
            f"schema {quoted}",
            f"{role} may not create tables in it",
            f"GRANT CREATE ON SCHEMA {quoted} TO {role}",
        )
