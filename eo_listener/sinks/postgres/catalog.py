"""Reads the tables of a sink, and creates those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from eo_listener.errors import SettingsError
from eo_listener.sinks.postgres.types import Existing
from eo_listener.sinks.target import not_created, refuse_dotted

if TYPE_CHECKING:
    from eo_listener.sinks.ledger_sql import Many, Statement
    from eo_listener.sinks.postgres.columns import ColumnLayout
    from eo_listener.sinks.postgres.connection import Connection, Cursor

_MAKING: Final = 0x656F5F6C  # the key of the advisory lock for `making`: an arbitrary number


def run(link: Connection, statement: Statement) -> Cursor:
    """Run one statement; every literal percent sign in its text must be doubled."""
    if not statement.values:  # psycopg does not change a text without parameters
        return link.execute(statement.text.replace("%%", "%").encode())
    return link.execute(statement.text.encode(), statement.values)


def run_many(link: Connection, many: Many) -> Cursor:
    """Run one statement for each row of parameters, all sent together.

    The cursor has the number of changed rows as its `rowcount`.
    """
    cursor = link.cursor()
    if many.rows:
        cursor.executemany(many.text.encode(), many.rows)
    return cursor


def identifier(schema: str | None, name: str) -> sql.Identifier:
    """Return `name` as a quoted identifier, qualified with `schema` unless that is None."""
    return sql.Identifier(name) if schema is None else sql.Identifier(schema, name)


def qualified_name(link: Connection, schema: str | None, name: str) -> str:
    """Return `name`, quoted and qualified, for the text of a statement with parameters."""
    return identifier(schema, name).as_string(link).replace("%", "%%")


def schema_of(link: Connection, table: str | None) -> str | None:
    """Return the schema in which the search_path finds `table`, or else the path's first schema.

    Return None if no schema of the search_path exists.
    """
    row: tuple[Any, ...] | None = link.execute(
        "SELECT COALESCE((SELECT n.nspname FROM pg_class c JOIN pg_namespace n "
        "ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)), current_schema())",
        (None if table is None else identifier(None, table).as_string(link),),
    ).fetchone()
    return None if row is None else row[0]


def oid(link: Connection, schema: str | None, name: str) -> int | None:
    """Return the table's OID, or None if the table does not exist."""
    query = "SELECT to_regclass(%s)::oid::bigint"
    row: tuple[Any, ...] | None = link.execute(
        query, (identifier(schema, name).as_string(link),)
    ).fetchone()
    return None if row is None or row[0] is None else int(row[0])


@contextmanager
def making(link: Connection) -> Iterator[None]:
    """Open a transaction in which to create tables; only one session at a time can have one.

    IF NOT EXISTS alone fails if two sessions create a table at the same time.
    """
    with link.transaction():
        link.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
        yield


_COLUMNS: Final = """
SELECT a.attname, CASE b.typtype WHEN 'e' THEN 'enum' ELSE b.typname END,
       CASE e.typtype WHEN 'e' THEN 'enum' ELSE e.typname END, b.modifier,
       format_type(a.atttypid, a.atttypmod), a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a
CROSS JOIN LATERAL (
    WITH RECURSIVE beneath AS (  -- a domain may be over a domain
        SELECT t.*, a.atttypmod AS modifier, 0 AS depth FROM pg_type t WHERE t.oid = a.atttypid
        UNION ALL
        SELECT t.*, CASE WHEN d.typtypmod < 0 THEN d.modifier ELSE d.typtypmod END, d.depth + 1
        FROM beneath d JOIN pg_type t ON d.typtype = 'd' AND t.oid = d.typbasetype
    )
    SELECT * FROM beneath ORDER BY depth DESC LIMIT 1
) b
LEFT JOIN pg_type e ON b.typcategory = 'A' AND e.oid = b.typelem
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

_NOT_PERMANENT: Final = """
WITH RECURSIVE relations AS (  -- through views, whose own persistence says nothing
    SELECT to_regclass(%s)::oid AS oid
    UNION
    SELECT d.refobjid FROM relations
    JOIN pg_class v ON v.oid = relations.oid AND v.relkind = 'v'
    JOIN pg_rewrite r ON r.ev_class = v.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                    AND d.refclassid = 'pg_class'::regclass
)
SELECT c.oid::regclass::text FROM pg_class c WHERE c.relpersistence <> 'p' AND (c.oid IN
    (SELECT oid FROM relations) OR c.oid IN
    (SELECT t.relid FROM relations, pg_partition_tree(relations.oid) t))
LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTable:
    """The columns of an existing table, and the reason why it may lose rows.

    `not_durable` names a table that a crash, or the end of a connection, empties. This is the table
    itself or a table beneath it, because a view or a partitioned table does not itself show whether
    its rows survive.
    """

    columns: dict[str, Existing]
    not_durable: str | None


def existing_tables(
    link: Connection, schema: str | None, names: Sequence[str]
) -> dict[str, ExistingTable]:
    """Return a description of each table in `names` that exists, in one round trip."""
    answers: list[tuple[Cursor, Cursor, Cursor]] = []
    with link.pipeline():
        for name in names:
            text = identifier(schema, name).as_string(link)
            exists = link.execute("SELECT to_regclass(%s) IS NOT NULL", (text,))
            columns = link.execute(_COLUMNS, (text,))
            answers.append((exists, columns, link.execute(_NOT_PERMANENT, (text,))))
    tables = {}
    for name, (exists, columns, not_durable) in zip(names, answers, strict=True):
        if exists.fetchone() == (True,):
            kinds = {column: Existing(*fields) for column, *fields in columns.fetchall()}
            row = not_durable.fetchone()
            tables[name] = ExistingTable(columns=kinds, not_durable=None if row is None else row[0])
    return tables


def check_durable(
    link: Connection, schema: str | None, table: str, not_durable: str | None
) -> None:
    """Raise SettingsError if `not_durable` names a table that could lose its rows."""
    if not_durable is not None:
        name = identifier(schema, table).as_string(link)
        raise SettingsError(
            f"the table {name}, or a table beneath it, is UNLOGGED or temporary: {not_durable}",
            cause="a crash of the server would empty it, while the ledger still counts its rows",
            fix=f"ALTER TABLE {not_durable} SET LOGGED",
        )


def make_target(
    link: Connection,
    layout: ColumnLayout,
    keys: tuple[str, ...],
    where: tuple[str | None, str],
    *,
    create: bool,
) -> None:
    """Create the target for rows of `layout`; if `create` is False, raise SettingsError instead."""
    refuse_dotted("table", where[1], has_schemas=True)
    statement = layout.definition(identifier(*where), keys)
    if not create:
        table = identifier(*where).as_string(link)
        raise not_created(f"table {table} does not exist", statement.as_string(link))
    with making(link):
        link.execute(statement)
