"""Names of tables and branches: what is read, quoted and refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eo_listener.errors import SettingsError
from eo_listener.sinks.iceberg.names import TableName, is_branch_of, is_branch_of_any, new_branch

part = st.text(min_size=1).filter(lambda text: bool(text.strip()))


@settings(max_examples=30)
@given(st.lists(part, min_size=3, max_size=5))
def test_a_quoted_name_comes_back(parts: list[str]) -> None:
    """Whatever is in its parts."""
    name = TableName(tuple(parts))
    assert TableName.parse(name.sql) == name
    assert TableName.parse(name.key) == name


def test_a_plain_name_is_its_key() -> None:
    """And a branch is one more part."""
    name = TableName.parse("lake.db.flights")
    assert name.key == "lake.db.flights"
    assert name.branch("x") == "`lake`.`db`.`flights`.`branch_x`"
    assert name.namespace == "`lake`.`db`"
    assert TableName.parse("lake.`a.b`.c.`d``e`").parts == ("lake", "a.b", "c", "d`e")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("flights", "name the catalog"),
        ("db.flights", "name the catalog"),
        ("", "not a table name"),
        ("lake..flights", "not a table name"),
        ("lake.db.flights.", "not a table name"),
        ("lake.db.`flights", "not a table name"),
        ("lake.db.`fl`ights", "not a table name"),
        ("lake.db.` `", "not a table name"),
    ],
)
def test_what_is_no_full_name_is_refused(name: str, problem: str) -> None:
    """A shorter name would mean another table in another session."""
    with pytest.raises(SettingsError, match=problem):
        TableName.parse(name)


@settings(max_examples=30)
@given(st.text(), st.text(), st.text())
def test_a_branch_tells_its_query(query: str, other: str, run: str) -> None:
    """No two branches have one name, and one of a user's is none of ours."""
    branch = new_branch(query, run)
    assert is_branch_of(query, branch)
    assert is_branch_of_any(branch)
    assert is_branch_of(other, branch) == (other == query)
    assert new_branch(query, run) != branch
    assert not is_branch_of_any("audit")
