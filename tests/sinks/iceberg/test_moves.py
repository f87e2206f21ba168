"""What was computed on a branch, and commits of others behind which it is still right, or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from eo_listener.errors import RetriableSinkError
from eo_listener.model.ledger import Applied
from eo_listener.sinks.iceberg import moves
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.publication import Publication
from eo_listener.sinks.iceberg.snapshots import Snapshot
from eo_listener.spark.jvm import iceberg_table
from eo_listener.spark.jvm.iceberg_errors import java_errors
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, Row, heads_of
from tests.sinks.chapters.store import once
from tests.sinks.iceberg.java_tables import Catalog, JavaSink
from tests.sinks.iceberg.lake import entry

pytestmark = pytest.mark.spark  # needs a JVM and its jars


def row(word: str) -> Row:
    return ("flights", 0, 0, word)


@dataclass
class Merged:
    """As a MERGE of `keys` it changes the file with the row `old` to `new`, and counts tries."""

    java: Catalog
    table: str
    keys: Sequence[str] = ("old", "new")
    tries: int = 0
    appends = False

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:
        self.tries += 1
        with java_errors():
            self.java.overwrite(self.table, "old", [row("new")], branch=branch)
        return 1

    def concerns(self, base: int, main: int) -> bool:
        table = self.java.load(self.table)
        found = table.newIncrementalAppendScan().fromSnapshotExclusive(base).toSnapshot(main)
        return not self.java.words(found).isdisjoint(self.keys)


def merge(java: Catalog, table: str, number: int = 0) -> tuple[Merged, Applied]:
    merged = Merged(java, table)
    applied = Publication(
        label=table,
        table=java.table(table),
        ledgers=PublishedLedgers(table, lambda _: False),
        rows=merged,
        entry=entry(number),
        accept_expired=False,
    ).write()
    return merged, applied


@pytest.fixture
def table(java: Catalog) -> str:
    name = java.create()
    for word in ("old", "other"):
        java.append(name, [row(word)])
    return name


def words(java: Catalog, table: str) -> list[str]:
    return sorted(one[3] for one in java.rows(table))


def expire_between(java: Catalog, table: str) -> None:
    for _ in range(2):
        java.append(table, [row("foreign")])
    java.expire(table)


MOVES: dict[str, tuple[Callable[[Catalog, str], object], int, list[str]]] = {
    "another file is compacted": (lambda java, t: java.compact(t, "other"), 1, ["new", "other"]),
    "its file is compacted": (lambda java, t: java.compact(t, "old"), 2, ["new", "other"]),
    "manifests are rewritten": (
        lambda java, t: java.load(t).rewriteManifests().commit(),
        1,
        ["new", "other"],
    ),
    "other rows are appended": (
        lambda java, t: java.append(t, [row("foreign")]),
        1,
        ["foreign", "new", "other"],
    ),
    "rows with its keys are appended": (
        lambda java, t: java.append(t, [row("old")]),
        2,
        ["new", "other"],
    ),
    "its row is deleted": (lambda java, t: java.delete(t, "old"), 2, ["new", "other"]),
    "another row is deleted": (lambda java, t: java.delete(t, "other"), 2, ["new"]),
    "snapshots between have expired": (expire_between, 2, ["foreign", "foreign", "new", "other"]),
}


@pytest.mark.parametrize("move", MOVES)
def test_what_others_do_before_it_is_published(java: Catalog, table: str, move: str) -> None:
    """It is computed again where it could have come out otherwise, and only there."""
    act, tries, left = MOVES[move]
    with once("sink.commit-sent", lambda: act(java, table)):
        merged, applied = merge(java, table)
    assert (merged.tries, applied.rows) == (tries, 1)
    assert words(java, table) == left
    assert JavaSink(java, table).applied(QUERY) == heads_of(entry(0))
    assert java.branches(table) == 1
    merge(java, table, 1)
    assert JavaSink(java, table).applied(QUERY) == heads_of(entry(1))


@pytest.mark.parametrize(
    ("move", "planted"),
    [
        ("its file is compacted", (iceberg_table, "holds")),
        ("its row is deleted", (moves, "leave_rows")),
        ("rows with its keys are appended", (Merged, "concerns")),
    ],
)
def test_where_that_is_not_asked_rows_are_wrong(
    java: Catalog, table: str, move: str, planted: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the questions has a table of its own that shows what it is for."""
    monkeypatch.setattr(*planted, lambda *_: planted[1] != "concerns")
    with pytest.raises(AssertionError):
        test_what_others_do_before_it_is_published(java, table, move)


def test_several_moves_one_after_the_other(java: Catalog, table: str) -> None:
    """Each of them is looked at, also those that come while the first is."""
    points: Iterator[Callable[[], object]] = iter(
        [lambda: java.compact(table, "other"), lambda: java.append(table, [row("b")])]
    )
    real = iceberg_table.IcebergTable.publish_again

    def late(*args: Any, **given: Any) -> None:
        act = next(points, None)
        if act is not None:
            act()
        real(*args, **given)

    with (
        pytest.MonkeyPatch.context() as patch,
        once("sink.commit-sent", lambda: java.append(table, [row("a")])),
    ):
        patch.setattr(iceberg_table.IcebergTable, "publish_again", late)
        merged, _ = merge(java, table)
    assert merged.tries == 1
    assert words(java, table) == ["a", "b", "new", "other"]


def test_it_is_named_who_is_always_first(java: Catalog, table: str) -> None:
    """By what it does and as which program; with what it takes, and what to do about it."""

    def change() -> None:
        deleted = java.load(table).newDelete()
        deleted.deleteFile("file:/nowhere")
        deleted.set("engine-name", "spark").set("app-id", "local-5").commit()

    with (
        hooked(lambda point: change() if point == "sink.commit-sent" else None),
        pytest.raises(RetriableSinkError) as refused,
    ):
        merge(java, table)
    for fact in ("batch 0", "5 times", "1 delete", "spark local-5"):
        assert fact in str(refused.value)
    assert "maintain_iceberg" in str(refused.value.fix)
    assert words(java, table) == ["old", "other"]
    assert java.branches(table) == 0


def snapshot(number: int, operation: str | None = "append", **more: Any) -> Snapshot:
    parent = number - 1 if number else None
    return Snapshot(number, parent, number, None, more.pop("added", 0), operation=operation, **more)


def test_an_unknown_operation_may_have_changed_rows() -> None:
    """As any but appends and replacements."""
    assert moves.leave_rows([snapshot(1), snapshot(2, "replace")])
    for other in (None, "overwrite", "delete", "later"):
        assert not moves.leave_rows([snapshot(1), snapshot(2, other)])
    assert "rolled back" in moves.described(None)
    assert moves.described([snapshot(2, "replace"), snapshot(1)]).startswith("1 append, 1 replace")
