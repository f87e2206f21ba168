"""The arguments of a sink about its target, for every store."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.errors import SettingsError
from eo_listener.model.ledger import Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.target import Target, refuse_dropped
from eo_listener.testing.made_up_entries import entry_of, heads_of


def target(**given: Any) -> Target:
    known = {"table": "t", "mode": "append", "keys": (), "apply": None, "create": True}
    return Target.from_arguments(**{**known, "dead_letters": None, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "merge"}, "got 'merge'"),
        ({"table": ""}, "'' is not a valid"),
        ({"table": "a\x00b"}, "is not a valid"),
        ({"dead_letters": ""}, "'' is not a valid"),
        ({"mode": "upsert", "keys": ["k", ""]}, "'' is not a valid"),
        ({"mode": "upsert", "keys": "k", "version_column": ""}, "'' is not a valid"),
        ({"dead_letters": "T"}, "cannot be used together"),
        ({"table": "Eo_Ledger"}, "cannot be used together"),
        ({"dead_letters": "eo_ledger_history"}, "cannot be used together"),
        ({"keys": "k"}, "keys= has no meaning"),
        ({"mode": "upsert"}, "mode 'upsert' needs"),
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


def heads(**held: int) -> dict[TopicPartition, Head]:
    """What the ledger has: an offset for each topic."""
    ranges = {TopicPartition(topic, 0): OffsetRange(0, until) for topic, until in held.items()}
    return heads_of(entry_of({}, ranges))


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


@pytest.mark.parametrize("given", ["DELETE FROM a", ["DELETE FROM a"], iter(["DELETE FROM a"])])
def test_statements_are_there_for_every_batch(given: Any) -> None:
    """However they are given, each batch runs all of them, and not only the first."""
    made = target(apply=given)
    for _ in range(2):
        assert made.statements == ("DELETE FROM a",)


@pytest.mark.parametrize("given", ["", " \n", [], ["", " "], iter([]), 5, [b"DELETE FROM a"]])
def test_no_statement_writes_nothing(given: Any) -> None:
    """An `apply=` that would drop every row, while the ledger moves, is refused."""
    with pytest.raises(SettingsError, match="no statement"):
        target(apply=given)
