"""The arguments of a sink about its target, forevery store."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import Head
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_sql import LedgerRow
from eo_listener.sinks.target import Mode, Target, refuse_dotted, refuse_dropped


def target(**given: Any) -> Target:
    known: dict[str, Any] = {
        "table": "t",
        "mode": "append",
        "keys": (),
        "apply": None,
        "create": True,
        "dead_letters": None,
    }
    return Target.of(**{**known, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "merge"}, "got 'merge'"),
        ({"table": ""}, "'' cannot be the name"),
        ({"table": "a\x00b"}, "cannot be the name"),
        ({"dead_letters": ""}, "'' cannot be the name"),
        ({"mode": "upsert", "keys": ["k", ""]}, "'' cannot be the name"),
        ({"mode": "upsert", "keys": "k", "version_column": ""}, "'' cannot be the name"),
        ({"dead_letters": "T"}, "cannot be used together"),
        ({"table": "Eo_Ledger"}, "cannot be used together"),
        ({"dead_letters": "eo_ledger_history"}, "cannot be used together"),
        ({"keys": "k"}, "keys= has no meaning"),
        ({"mode": "upsert"}, "mode 'upsert' needs to know"),
        ({"version_column": "v"}, "version_column= has no meaning"),
        ({"mode": "upsert", "keys": ("k", "v"), "version_column": "v"}, "is one of keys="),
        ({"mode": "upsert", "keys": "k", "apply": "DELETE FROM a"}, "has no meaning with it"),
        ({"max_dead_letters": -1}, "got -1"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    """Each wrong combination is refused, with what to write instead."""
    with pytest.raises(SettingsError, match=said) as refused:
        target(**given)
    assert refused.value.fix


def test_what_was_said_is_kept() -> None:
    """One key may come without a list."""
    one = target(mode="upsert", keys="key", version_column="v", dead_letters="d", create=False)
    assert (one.table, one.mode, one.keys, one.version_column) == ("t", Mode.UPSERT, ("key",), "v")
    assert (one.dead_letters, one.create, one.apply, one.limit.most) == ("d", False, None, 0.5)
    assert target(mode="upsert", keys=["a", "b"]).keys == ("a", "b")
    assert target(max_dead_letters=7).limit.most == 7


@pytest.mark.parametrize(
    ("name", "has_schemas", "fix"),
    [
        ("sales.delays", True, "schema='sales', table='delays'"),
        ("a.b.c", True, "schema='a.b', table='c'"),
        ("main.delays", False, "Write table='delays'"),
        (".t", True, "schema='', table='t'"),
    ],
)
def test_a_name_with_a_dot_is_not_made(name: str, has_schemas: bool, fix: str) -> None:
    """What to write instead is said; a name without one may be made."""
    with pytest.raises(SettingsError, match="no table") as refused:
        refuse_dotted("table", name, has_schemas=has_schemas)
    assert fix in str(refused.value.fix)
    refuse_dotted("table", "delays", has_schemas=has_schemas)


def heads(**held: int) -> dict[TopicPartition, LedgerRow]:
    """What the ledger has: an offset for each topic."""
    found = {}
    for topic, until in held.items():
        tp = TopicPartition(topic, 0)
        head = Head(
            range=OffsetRange(0, until), topic_id=None, query_id="id", run_id="run", batch_id=1
        )
        found[tp] = LedgerRow(tp, head, "now")
    return found


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"a": 1}, "a-0 was written up to 1"),
        ({"a": 9}, "a-0 was written up to 9"),
        ({"b": 8, "a": 9}, "a-0 was written up to 9, and 1 more"),
        ({"c": 7, "b": 8, "a": 0}, "b-0 was written up to 8, and 1 more"),
    ],
)
def test_a_table_that_has_gone_is_not_made_again(held: dict[str, int], said: str) -> None:
    """The ledger says what it had; the DELETE to begin again can be typed as shown."""
    with pytest.raises(SettingsError) as refused:
        refuse_dropped("table t", "my 'own'", "it's", heads(**held))
    assert refused.value.problem.startswith("table t")
    assert refused.value.problem.endswith(said)
    wanted = "DELETE FROM eo_ledger WHERE sink = 'my ''own''' AND query = 'it''s', and"
    assert wanted in str(refused.value.fix)


@pytest.mark.parametrize("held", [{}, {"a": 0}])
def test_a_table_that_never_had_rows_is_made(held: dict[str, int]) -> None:
    """Nothing was written to it that would be missing."""
    refuse_dropped("table t", "t", "q", heads(**held))


def applied(apply: Any) -> Target:
    return Target.of(table="t", mode="append", keys=(), apply=apply, create=True, dead_letters=None)


@pytest.mark.parametrize("given", ["DELETE FROM a", ["DELETE FROM a"], iter(["DELETE FROM a"])])
def test_statements_are_there_for_every_batch(given: Any) -> None:
    """However they are given, each batch runs all of them, and not only the first."""
    target = applied(given)
    for _ in range(2):
        assert target.statements == ("DELETE FROM a",)


@pytest.mark.parametrize("given", ["", " \n", [], ["", " "], iter([]), 5, [b"DELETE FROM a"]])
def test_no_statement_writes_nothing(given: Any) -> None:
    """An `apply=` that would drop every row, while the ledger moves, is refused."""
    with pytest.raises(SettingsError, match="no statement"):
        applied(given)


def test_a_function_is_no_statement() -> None:
    """What can be called is kept as it is."""
    assert applied(print).apply is print
    assert applied(print).statements == applied(None).statements == ()
