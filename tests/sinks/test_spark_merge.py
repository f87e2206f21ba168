"""The MERGE of an upsert, as text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from eo_listener.sinks.spark_merge import Merge

TRACED = {"topic": "string", "partition": "int", "offset": "bigint"}


def merge(*columns: str, located: bool = False, **given: Any) -> Merge:
    target = SimpleNamespace(
        **{"keys": ("id",), "version_column": None, "delete_when": None, **given}
    )
    return Merge(
        target=target,
        table="t",
        label="t",
        rows={**dict.fromkeys(columns, "int"), **TRACED},
        columns=(*columns, *(TRACED if located else ())),
    )


def test_names_of_the_user_meet_none_of_ours() -> None:
    """Whatever is in them: staged columns have numbers, and each name is said to be of whom."""
    text = merge("id", "a`b.c", "c0").statement("v")
    assert "ON eo_there.`id` = eo_given.c0" in text
    assert "UPDATE SET eo_there.`a``b.c` = eo_given.c1, eo_there.`c0` = eo_given.c2" in text
    assert "INSERT (`id`, `a``b.c`, `c0`) VALUES (eo_given.c0, eo_given.c1, eo_given.c2)" in text


def test_one_row_of_each_key_is_given() -> None:
    """So no row of the table is matched twice."""
    assert "USING (SELECT * FROM v WHERE eo_place = 1) AS eo_given" in merge("id").statement("v")


def test_what_has_nothing_but_a_key_is_only_inserted() -> None:
    """And deleted only where that is asked for."""
    assert "WHEN MATCHED" not in merge("id").statement("v")
    text = merge("id", delete_when="gone").statement("v")
    assert text.index("THEN DELETE") < text.index("WHEN NOT MATCHED AND NOT eo_given.eo_deleted")


def test_values_are_compared_in_the_types_of_the_table() -> None:
    """As the MERGE would write them; what is the same there, or nested, stays as it is."""
    given = merge("id", "at", "n", "many", version_column="at", located=True)
    there = {"id": "int", "at": "int", "n": "decimal(10,2)", "many": "array<bigint>"}
    text = given._clash("v", there)
    assert "struct(eo_given.c0 AS v0, eo_given.c1 AS v1, CAST(eo_given.c2 AS decimal(10,2))" in text
    assert "AS v2, eo_given.c3 AS v3)" in text


def test_a_version_is_compared_with_the_row_in_the_table() -> None:
    """Of equal ones the offset decides, where the table has it."""
    newer = "eo_there.`at` IS NULL OR eo_given.c1 > eo_there.`at` OR (eo_there.`at` = eo_given.c1"
    plain = merge("id", "at", version_column="at").statement("v")
    assert f"WHEN MATCHED AND ({newer}))" in plain
    located = merge("id", "at", version_column="at", located=True).statement("v")
    assert f"{newer} AND (" in located
    assert "eo_given.c4 >= eo_there.`offset`" in located
