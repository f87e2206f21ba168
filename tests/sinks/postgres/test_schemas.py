"""Which schema, which tables: found out once, written out always, and fit to hold a ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.catalog import check_durable, columns, existing_tables
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.postgres.bare import TABLE, write
from tests.sinks.postgres.course import TP, another_role, ask, next_entry, script
from tests.sinks.postgres.course import write as put

_PARTED = (
    "CREATE TABLE t (id bigint) PARTITION BY LIST (id); "
    "CREATE UNLOGGED TABLE t1 PARTITION OF t FOR VALUES IN (1)"
)
_HEADS = "SELECT sink, next_offset FROM {}.eo_ledger"


@pytest.fixture
def schemas(dsn: str) -> Iterator[tuple[str, str, str]]:
    """A way in without a search_path, and two schemas beside the test's own."""
    own = ask(dsn, "SELECT current_schema()")[0]
    script(dsn, f"CREATE SCHEMA {own}_a", f"CREATE SCHEMA {own}_b")
    yield dsn.partition("?")[0], f"{own}_a", f"{own}_b"
    script(dsn, f"DROP SCHEMA {own}_a CASCADE", f"DROP SCHEMA {own}_b CASCADE")


def within(server: str, *path: str) -> str:
    return f"{server}?options=-csearch_path%3D{','.join(path)}"


def test_tables_of_one_name_share_no_head(dsn: str, schemas: tuple[str, str, str]) -> None:
    """Two sinks whose search_paths differ in the first schema alone are two sinks in the ledger,
    also when each can see the other's.
    """
    server, a, b = schemas
    own = ask(dsn, "SELECT current_schema()")[0]
    PostgresSink(dsn, "other").applied(QUERY)  # a ledger that both can see
    first, second = (PostgresSink(within(server, one, own), TABLE) for one in (a, b))
    write(first, next_entry(first))
    assert second.applied(QUERY) == {}
    write(second, next_entry(second))
    assert ask(dsn, _HEADS.format(a)) == [(f"{a}.{TABLE}", 10)]
    assert ask(dsn, _HEADS.format(b)) == [(f"{b}.{TABLE}", 10)]
    assert ask(dsn, "SELECT count(*) FROM eo_ledger") == [0]


def test_a_schema_that_is_named_later_is_the_same(dsn: str) -> None:
    """schema= added, or left out, leaves the ledger's key as it is."""
    own = ask(dsn, "SELECT current_schema()")[0]
    sink = PostgresSink(dsn, TABLE)
    write(sink, next_entry(sink))
    assert PostgresSink(dsn, TABLE, schema=own).applied(QUERY) == sink.applied(QUERY) != {}


def test_a_table_further_down_the_path_is_found(dsn: str, schemas: tuple[str, str, str]) -> None:
    """A table that only the second schema of the search_path has is written there."""
    server, a, b = schemas
    script(dsn, f"CREATE TABLE {b}.{TABLE} (id bigint, run text)")
    sink = PostgresSink(within(server, a, b), TABLE)
    write(sink, next_entry(sink))
    assert ask(dsn, f"SELECT count(*) FROM {b}.{TABLE}") == [10]
    assert ask(dsn, _HEADS.format(b)) == [(f"{b}.{TABLE}", 10)]


def test_a_search_path_of_nothing_is_named(schemas: tuple[str, str, str]) -> None:
    """A role whose search_path has no schema is told to name one."""
    with pytest.raises(SettingsError, match="schema="):
        PostgresSink(within(schemas[0], "no_such"), TABLE).applied(QUERY)


@pytest.mark.parametrize(
    "diversion",
    ["SET LOCAL search_path = {b}", "SET search_path = {b}", "CREATE TEMP TABLE {ledger}"],
)
def test_what_apply_does_to_names_moves_no_other_ledger(
    dsn: str, schemas: tuple[str, str, str], diversion: str
) -> None:
    """A search_path or a temporary table of the user's own statements diverts nothing of ours."""
    server, a, b = schemas
    other = PostgresSink(within(server, b), "t")
    other.applied(QUERY)
    text = diversion.format(b=b, ledger=f"eo_ledger (LIKE {b}.eo_ledger INCLUDING ALL)")
    sink = PostgresSink(within(server, a), "t")
    for batch in (1, 2):
        writer = sink._writer(QUERY)
        entry = next_entry(sink)
        link = sink._kept.connection(writer)
        with writer.transaction(link, entry):
            link.execute(text.replace("TABLE eo", "TABLE IF NOT EXISTS eo").encode())
        assert sink.applied(QUERY)[TP].range.until == 10 * batch
    assert other.applied(QUERY) == {}
    sink.close()


def test_a_percent_sign_in_a_schema(dsn: str) -> None:
    """A name with a percent sign is doubled as often as it is halved."""
    own = ask(dsn, "SELECT current_schema()")[0]
    script(dsn, f'CREATE SCHEMA "{own}%b"')
    try:
        sink = PostgresSink(dsn, "t%t", schema=f"{own}%b")
        for _ in range(2):
            writer, entry = sink._writer(QUERY), next_entry(sink)
            with writer.transaction(sink._kept.connection(writer), entry):
                pass
        assert sink.applied(QUERY)[TP].range.until == 20
        sink.close()
    finally:
        script(dsn, f'DROP SCHEMA "{own}%b" CASCADE')


@pytest.mark.parametrize(
    ("made", "not_durable"),
    [
        ("CREATE UNLOGGED TABLE t (id bigint)", True),
        ("CREATE TABLE t (id bigint)", False),
        (_PARTED, True),
        ("CREATE UNLOGGED TABLE u (id bigint); CREATE VIEW t AS SELECT id FROM u", True),
        (f"{_PARTED.replace(' t ', ' u ')}; CREATE VIEW t AS SELECT id FROM u", True),
        ("CREATE TABLE u (id bigint); CREATE VIEW t AS SELECT id FROM u", False),
    ],
)
def test_a_target_that_a_crash_empties_is_refused(dsn: str, made: str, not_durable: bool) -> None:
    """An unlogged target, one with an unlogged part, or a view of either, would lose its rows and
    keep its ledger.
    """
    script(dsn, *made.split(";"))
    sink = PostgresSink(dsn, "t")
    link = sink._kept.connection(sink._writer(QUERY))
    schema = sink._writer(QUERY).access.schema
    found = existing_tables(link, schema, ["t", "nowhere"])
    assert list(found) == ["t"]
    if not not_durable:
        check_durable(link, schema, "t", found["t"])
    else:
        with pytest.raises(SettingsError, match="SET LOGGED"):
            check_durable(link, schema, "t", found["t"])
    sink.close()


@pytest.mark.parametrize("setting", ["table", "dead_letters"])
def test_a_dot_parts_no_schema_from_a_table(
    dsn: str, schemas: tuple[str, str, str], setting: str
) -> None:
    """No table with a dot in its name is made beside the one that is meant; one that is there is
    taken.
    """
    _, a, _ = schemas
    script(dsn, f"CREATE TABLE {a}.t (id bigint)")
    given: dict[str, Any] = {"table": "t", setting: f"{a}.t"}
    sink = PostgresSink(dsn, **given)
    with pytest.raises(SettingsError, match=f"schema='{a}', {setting}='t'"):
        put(sink, ArrowFrame.rows("id bigint", (1,)))
    assert ask(dsn, f"SELECT count(*) FROM pg_class WHERE relname = '{a}.t'") == [0]
    sink.close()
    if setting == "table":
        script(dsn, f'CREATE TABLE "{a}.t" (id bigint, run text)')
        sink = PostgresSink(dsn, f"{a}.t")
        assert put(sink, ArrowFrame.rows("id bigint, run string", (1, "r"))).rows == 1
        sink.close()


def test_a_domain_over_a_domain_is_what_is_beneath(dsn: str) -> None:
    """With the modifier of the one that has it."""
    script(
        dsn,
        "CREATE DOMAIN short AS numeric(10, 2)",
        "CREATE DOMAIN price AS short",
        "CREATE DOMAIN tags AS text[]",
        "CREATE DOMAIN labels AS tags",
        "CREATE TABLE d (a price, b labels, c numeric(5, 1), d int)",
    )
    with PostgresSink(dsn, "d")._writer(QUERY).open() as link:
        found = columns(link, None, "d")
        link.execute("CREATE TEMP TABLE e (x numeric(10, 2))")
        plain = (columns(link, None, "e") or {})["x"]
    assert found is not None
    assert (found["a"].base, found["a"].modifier, found["a"].type_name) == (
        *("numeric", plain.modifier),
        "price",
    )
    assert (found["b"].base, found["b"].element) == ("_text", "text")
    assert found["c"].modifier > 0
    assert (found["d"].base, found["d"].modifier) == ("int4", -1)


def test_an_unlogged_ledger_is_refused(dsn: str) -> None:
    """A ledger that a crash would empty is no ledger."""
    sink = PostgresSink(dsn, "t")
    sink.applied(QUERY)
    script(dsn, "ALTER TABLE eo_ledger SET UNLOGGED")
    with pytest.raises(SettingsError, match=r"eo_ledger.*UNLOGGED"):
        sink.applied(QUERY)


@pytest.mark.parametrize(
    ("granted", "lacking"),
    [
        ("SELECT, INSERT, UPDATE", "DELETE ON"),
        ("SELECT", "INSERT, UPDATE ON"),
        ("SELECT, INSERT, UPDATE, DELETE", None),
    ],
)
def test_rights_on_the_ledger_are_asked_at_once(
    dsn: str, granted: str, lacking: str | None
) -> None:
    """A role that could not prune the history in a hundred batches is told before the first."""
    PostgresSink(dsn, "t").applied(QUERY)
    grants = (
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT {granted} ON eo_ledger, eo_ledger_history TO {{role}}",
    )
    with (
        another_role(dsn, *grants) as poor,
        contextlib.closing(PostgresSink(poor, "t", create=False)) as sink,
    ):
        if lacking is None:
            assert sink.applied(QUERY) == {}
        else:
            with pytest.raises(SettingsError, match=f"GRANT.*{lacking}"):
                sink.applied(QUERY)


def test_generated_columns_are_known(dsn: str) -> None:
    """Columns that only the server fills are told from those with a default, enums from others."""
    script(
        dsn,
        "CREATE TYPE mood AS ENUM ('ok')",
        "CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED, m mood, ms mood[], "
        "c int GENERATED ALWAYS AS IDENTITY, d int GENERATED BY DEFAULT AS IDENTITY)",
    )
    with PostgresSink(dsn, "g")._writer(QUERY).open() as link:
        found = columns(link, None, "g")
    assert found is not None
    assert {name for name, one in found.items() if one.generated} == {"b", "c"}
    assert (found["m"].base, found["ms"].element) == ("enum", "enum")
