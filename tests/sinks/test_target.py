"""What a sink is told of its target, for every store."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.errors import SettingsError
from eo_listener.sinks.target import Target


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
