"""A batch on its branch, and main moved on to it by a real Iceberg, whatever others do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import sleep
from typing import Any

import pytest

from eo_listener.errors import ForeignWriterError, OutcomeUnknownError, RetriableSinkError
from eo_listener.model.ledger import Entry
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.iceberg import publication
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.spark.jvm.iceberg_table import IcebergTable, MainMovedError
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY, Row, entry_of, heads_of, plan_of, rows_of
from tests.sinks.chapters.store import once
from tests.sinks.iceberg.java_tables import Catalog, JavaSink
from tests.sinks.iceberg.lake import TP, entry

pytestmark = pytest.mark.spark  # needs a JVM and its jars

FOREIGN: Row = ("elsewhere", 0, 0, "foreign")
BEFORE = ("sink.begun", "sink.rows-written", "sink.ledger-moved", "sink.commit-sent")
each_way = pytest.mark.parametrize("appends", [True, False], ids=["append", "sql"])


class TestAppends(SinkConformance):
    """Rows and ledger in one snapshot."""

    shared_ledger = False
    appends = True

    @pytest.fixture(autouse=True)
    def _store(self, java: Catalog) -> None:
        self.java = java
        self.tables: dict[str, str] = {}

    def open_sink(self, target: str) -> JavaSink:
        if target not in self.tables:
            self.tables[target] = self.java.create()
        return JavaSink(self.java, self.tables[target], appends=self.appends)

    def read_rows(self, target: str) -> list[Row]:
        return self.java.rows(self.tables[target]) if target in self.tables else []

    def make_frame(self, rows: Sequence[Row]) -> Any:
        return rows


@pytest.mark.slow
class TestStatements(TestAppends):
    """Rows by any number of snapshots, and the ledger in one that is published with them."""

    appends = False

    def test_a_large_batch_is_written_whole(self) -> None:
        """Here each row is a snapshot: there is nothing to learn from many."""


def write(java: Catalog, table: str, one: Entry | int, *, appends: bool = True) -> JavaSink:
    one = entry(one) if isinstance(one, int) else one
    sink = JavaSink(java, table, appends=appends)
    sink.apply(rows_of(one), one, plan_of(one))
    return sink


def check(java: Catalog, table: str, *numbers: int, foreign: int = 0) -> None:
    """See that main has these batches and foreign rows, and the ledger the last of them."""
    rows = [row for number in numbers for row in rows_of(entry(number))]
    assert sorted(java.rows(table)) == sorted([*rows, *[FOREIGN] * foreign])
    heads = heads_of(entry(numbers[-1])) if numbers else {}
    assert JavaSink(java, table).applied(QUERY) == heads


def before_publishing(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], times: int = 1
) -> None:
    """Act between the last look at the table and the commit."""
    left = [act] * times
    for name in ("publish", "publish_again"):
        real = getattr(IcebergTable, name)

        def late(*args: Any, real: Callable[..., None] = real, **given: Any) -> None:
            if left:
                left.pop()()
            real(*args, **given)

        monkeypatch.setattr(IcebergTable, name, late)


@pytest.fixture
def table(java: Catalog) -> str:
    """A table with one batch."""
    name = java.create()
    write(java, name, 0)
    return name


def test_compaction_in_mid_batch(java: Catalog, table: str) -> None:
    """The files are added again behind it: nothing is computed again."""
    write(java, table, 1)
    with once("sink.commit-sent", lambda: java.compact(table)):
        sink = write(java, table, 2)
    assert sink.written is not None
    assert sink.written.tries == 1
    assert java.branches(table) == 1
    check(java, table, 0, 1, 2)


@each_way
def test_another_commit_right_before(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch, appends: bool
) -> None:
    """What was written by SQL is computed again; files are added again, until it succeeds."""
    before_publishing(monkeypatch, lambda: java.append(table, [FOREIGN]), times=3)
    sink = write(java, table, 1, appends=appends)
    assert sink.written is not None
    assert sink.written.tries == (1 if appends else 4)
    check(java, table, 0, 1, foreign=3)
    assert java.branches(table) == 1


@each_way
def test_it_ends_where_others_always_come_first(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch, appends: bool
) -> None:
    """The tries are bounded, and nothing is left behind; it is said who was there first."""
    monkeypatch.setattr(publication, "TRIES", 8)
    before_publishing(monkeypatch, lambda: java.append(table, [FOREIGN]), times=1000)
    with pytest.raises(RetriableSinkError, match="first" if appends else r"5 times .*1 append"):
        write(java, table, 1, appends=appends)
    assert len(java.rows(table)) == 1 + (8 if appends else 5)
    assert JavaSink(java, table).applied(QUERY) == heads_of(entry(0))
    assert java.branches(table) == 1


@each_way
def test_a_commit_that_leaves_main_alone(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch, appends: bool
) -> None:
    """A property, or a user's branch: the batch is published by the next try."""

    def change() -> None:
        java.load(table).updateProperties().set("who", "me").commit()

    before_publishing(monkeypatch, change, times=2)
    write(java, table, 1, appends=appends)
    check(java, table, 0, 1)


@each_way
@pytest.mark.parametrize("point", BEFORE)
def test_a_zombie_is_refused_at_every_point(
    java: Catalog, table: str, point: str, appends: bool
) -> None:
    """Its successor has published the same range, or more, while it stood still."""
    late = entry_of(heads_of(entry(0)), {TP: OffsetRange(1, 2)}, batch_id=1, run_id="zombie")

    def successor() -> None:
        write(java, table, 1)
        write(java, table, 2)

    with once(point, successor), pytest.raises((ForeignWriterError, RetriableSinkError)):
        write(java, table, late, appends=appends)
    with pytest.raises(ForeignWriterError):  # where its branch was dropped, it is tried again
        write(java, table, late, appends=appends)
    check(java, table, 0, 1, 2)
    assert java.branches(table) == 1


def test_a_zombie_that_wakes_right_before_it_publishes(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to see any more, so its commit is refused, and then it looks again."""
    late = entry_of(heads_of(entry(0)), {TP: OffsetRange(1, 2)}, batch_id=1, run_id="zombie")
    before_publishing(monkeypatch, lambda: write(java, table, 1))
    with pytest.raises(RetriableSinkError, match="no longer exists"):
        write(java, table, late)
    check(java, table, 0, 1)


@each_way
@pytest.mark.parametrize("point", BEFORE)
def test_what_a_dead_driver_left_is_dropped(
    java: Catalog, table: str, point: str, appends: bool
) -> None:
    """Its branch is not taken for the ledger, and goes with the next batch."""
    dead = entry(1, run_id="dead")
    with broken_off(point, Killed()), pytest.raises(Killed):
        write(java, table, dead, appends=appends)
    assert java.branches(table) == 2
    check(java, table, 0)
    write(java, table, 1)
    assert java.branches(table) == 1
    check(java, table, 0, 1)


def test_branches_of_others_stay(java: Catalog, table: str) -> None:
    """A user's, and the ledger of another query."""
    other = entry_of({}, {TP: OffsetRange(0, 1)}, query="other")
    write(java, table, other)
    java.load(table).manageSnapshots().createBranch("audit", java.table(table).main).commit()
    for number in (1, 2):
        write(java, table, number)
    assert java.branches(table) == 2
    assert "audit" in java.table(table).branches
    assert JavaSink(java, table).applied("other") == heads_of(other)


@each_way
def test_a_rollback_right_before_stays(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch, appends: bool
) -> None:
    """A fast-forward alone would undo it: main's head is behind the branch again."""
    before = java.table(table).main
    write(java, table, 1)
    before_publishing(monkeypatch, lambda: java.roll_back(table, before))
    with pytest.raises(ForeignWriterError):
        write(java, table, 2, appends=appends)
    check(java, table, 0)


def test_a_rollback_while_it_is_committed_stays(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between the transaction's begin and its commit."""
    before = java.table(table).main
    write(java, table, 1)
    forward = IcebergTable._forward
    left = [before]

    def late(*args: Any, **given: Any) -> None:
        if left:
            java.roll_back(table, left.pop())
        forward(*args, **given)

    monkeypatch.setattr(IcebergTable, "_forward", late)
    with pytest.raises(ForeignWriterError):
        write(java, table, 2)
    check(java, table, 0)


@each_way
def test_the_ledger_outlives_expired_snapshots(java: Catalog, table: str, appends: bool) -> None:
    """All but the heads of branches are gone, in mid-batch too."""
    write(java, table, 1)
    java.append(table, [FOREIGN])
    java.expire(table)
    check(java, table, 0, 1, foreign=1)
    for point in BEFORE:
        number = 2 + BEFORE.index(point)
        with once(point, lambda: java.expire(table)):
            write(java, table, number, appends=appends)
    check(java, table, *range(6), foreign=1)


@pytest.mark.parametrize(
    ("way", "appends"), [("first", True), ("next", True), ("again", True), ("next", False)]
)
def test_branches_of_a_sink_do_not_expire(java: Catalog, way: str, appends: bool) -> None:
    """Where the table lets others expire at once, after whichever way of publication."""
    table = java.create()
    java.load(table).updateProperties().set("history.expire.max-ref-age-ms", "1").commit()
    if way != "first":
        java.append(table, [FOREIGN])
    if way == "again":
        with once("sink.commit-sent", lambda: java.append(table, [FOREIGN])):
            write(java, table, 0)
    else:
        write(java, table, 0, appends=appends)
    java.append(table, [FOREIGN])
    java.load(table).manageSnapshots().createBranch("audit", java.table(table).main).commit()
    java.append(table, [FOREIGN])
    sleep(0.01)
    java.expire(table)
    assert "audit" not in java.table(table).branches
    assert java.branches(table) == 1
    ledgers = PublishedLedgers("", lambda _: True)
    assert ledgers.published(java.table(table), QUERY).heads == heads_of(entry(0))


@pytest.mark.parametrize("made", [False, True], ids=["lost", "made"])
@each_way
def test_a_lost_answer_is_an_unknown_outcome(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch, made: bool, appends: bool
) -> None:
    """Whether the commit was made or not, the ledger says it afterwards."""
    unknown = ThrownError((f"{'x.' * 3}CommitStateUnknownException", "x.CommitFailed"), "lost")
    publish = IcebergTable.publish

    def unanswered(*args: Any, **given: Any) -> None:
        if made:
            publish(*args, **given)
        raise unknown

    monkeypatch.setattr(IcebergTable, "publish", unanswered)
    with pytest.raises(OutcomeUnknownError, match="CommitStateUnknownException: lost"):
        write(java, table, 1, appends=appends)
    monkeypatch.setattr(IcebergTable, "publish", publish)
    if made:
        check(java, table, 0, 1)
    else:
        check(java, table, 0)
        write(java, table, 1, appends=appends)
    write(java, table, 2, appends=appends)
    check(java, table, 0, 1, 2)
    assert java.branches(table) == 1


def test_a_write_that_lands_late_is_never_published(java: Catalog, table: str) -> None:
    """A commit to the branch of a try that was given up: no other try has its name."""
    before = set(java.table(table).branches)
    with broken_off("sink.begun", Killed()), pytest.raises(Killed):
        write(java, table, entry(1, run_id="dead"))
    (dead,) = set(java.table(table).branches) - before
    with once("sink.commit-sent", lambda: java.append(table, [FOREIGN], branch=dead)):
        write(java, table, 1)
    check(java, table, 0, 1)


def test_main_at_another_snapshot_is_no_place_to_begin(java: Catalog, table: str) -> None:
    """A branch is made at main's head or not at all."""
    with pytest.raises(MainMovedError):
        java.table(table).create_branch("eo_x", at=5)
    with pytest.raises(MainMovedError):
        java.table(table).publish("eo_x", at=None)
    assert java.branches(table) == 1
