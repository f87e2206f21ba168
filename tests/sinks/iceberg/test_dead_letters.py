"""Rows that an Iceberg table cannot take: in a table of their own, once, whatever dies when."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import udf, when

from eo_listener.errors import (
    EoListenerError,
    ForeignWriterError,
    OutcomeUnknownError,
    SettingsError,
    SinkError,
)
from eo_listener.model.ledger import Applied, Entry
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.iceberg import IcebergSink, dead_letters
from eo_listener.sinks.iceberg.dead_letters import DeadLetterTables, LettersOfBatch
from eo_listener.sinks.iceberg.publication import Publication
from eo_listener.sinks.iceberg.snapshots import PROPERTY
from eo_listener.spark.jvm.iceberg_table import IcebergTable
from eo_listener.testing.faults import Killed, broken_off, hooked
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of, plan_of
from tests.sinks.chapters.dead_letters import RefusedRowsChapter
from tests.sinks.chapters.store import once
from tests.sinks.iceberg.lake import TP, IcebergTarget, Lake

pytestmark = pytest.mark.spark

POINTS = (
    "sink.letters-staged",
    "sink.begun",
    "sink.rows-written",
    "sink.commit-sent",
    "sink.committed",
    "sink.letters-published",
)
_SIZE = 4


def batch(lake: Lake, number: int, *, odd: Sequence[int] = (1,), mark: str = "odd") -> DataFrame:
    """Rows of batch `number`; those at these places are marked."""
    start = _SIZE * number
    marked = ", ".join(map(str, odd)) or "-1"
    return lake.spark.range(start, start + _SIZE, 1, 1).selectExpr(
        "'flights' topic",
        "0 partition",
        "id offset",
        "concat('w', id) word",
        f"if(id - {start} IN ({marked}), '{mark}', null) eo_poison",
    )


def entry(lake: Lake, number: int, run: str = "run-1", found: Any = None) -> Entry:
    """That of batch `number`, judged by what the table has now."""
    heads = lake.sink("t").applied(QUERY) if found is None else found
    ranges = {TP: OffsetRange(_SIZE * number, _SIZE * (number + 1))}
    return entry_of(heads, ranges, run_id=run, batch_id=number)


def write(lake: Lake, frame: DataFrame, one: Entry, **given: Any) -> Applied:
    return sink_of(lake, **given).apply(frame, one, plan_of(one))


def sink_of(lake: Lake, **given: Any) -> IcebergSink:
    return lake.sink("t", **{"dead_letters": lake.table("bad"), **given})


def rows(lake: Lake) -> list[int]:
    return sorted(row.offset for row in lake.other().table(lake.table("t")).collect())


def dead(lake: Lake) -> list[tuple[int, str]]:
    """Offset and reason of all letters that another session reads."""
    found = lake.other().table(lake.table("bad")).collect()
    return sorted((row.offset, row.reason) for row in found)


class TestAppended(IcebergTarget, RefusedRowsChapter):
    """Rows that are appended, or merged where the chapter says so."""

    last_point = "sink.commit-sent"
    refusal = SinkError  # Spark does not say which row it was

    @property
    def letters_table(self) -> str:  # type: ignore[override]  # a name of the test's namespace
        return self.lake.table("bad")


def test_what_a_table_does_not_take(lake: Lake) -> None:
    """A null that it requires, a number that would change: each with the column. Others go in."""
    lake.spark.sql(
        f"CREATE TABLE {lake.table('t')} (offset bigint, a int NOT NULL, b decimal(4,1), c float) "
        "USING iceberg"
    )
    frame = lake.spark.sql(
        "SELECT 'flights' topic, 0 partition, offset, a, b, c FROM VALUES "
        "(0L, 1L, 1.50BD, 0.5D), (1L, null, 1BD, 1D), (2L, 3000000000L, 1BD, 1D), "
        "(3L, 4L, 99999.9BD, 1D), (4L, 5L, null, double('NaN')), (5L, 6L, 1.25BD, 1D), "
        "(6L, 7L, 1BD, 0.1D) AS v(offset, a, b, c)"
    )
    with pytest.raises(SettingsError, match="'a' is bigint in the rows and int"):
        write(lake, frame, entry(lake, 0), dead_letters=None)
    applied = write(lake, frame, entry(lake, 0), max_dead_letters=5)
    assert (applied.rows, applied.dead_letters) == (2, 5)
    found = lake.other().table(lake.table("t")).sort("offset").collect()
    assert [(row.offset, row.a, str(row.b)) for row in found] == [(0, 1, "1.5"), (4, 5, "None")]
    words = {1: ("'a'", " null"), 2: ("'a'", " int "), 6: ("'c'", " float ")}
    words |= dict.fromkeys((3, 5), ("'b'", " decimal(4,1) "))
    letters = dict(dead(lake))
    assert letters.keys() == words.keys()
    assert all(word in letters[offset] for offset in words for word in words[offset])


def test_a_row_that_deletes_needs_no_values(lake: Lake) -> None:
    """What the table requires is not asked of it."""
    table = lake.table("t")
    lake.spark.sql(f"CREATE TABLE {table} (id bigint, a int NOT NULL) USING iceberg")
    upsert = {"mode": "upsert", "keys": "id", "delete_when": "a IS NULL"}
    query = "SELECT {0}L offset, 1L id, {1} a"
    for number, value in enumerate(("7", "cast(null AS int)")):
        frame = lake.spark.sql(query.format(number, value))
        assert write(lake, frame, entry(lake, number), **upsert).dead_letters == 0
    assert lake.other().table(table).count() == 0


def test_your_own_sql(lake: Lake) -> None:
    """It gets the rows that are not marked."""
    lake.spark.sql(f"CREATE TABLE {lake.table('t')} (offset bigint) USING iceberg")
    insert = "INSERT INTO {table} SELECT offset FROM eo_batch"
    applied = write(lake, batch(lake, 0), entry(lake, 0), apply=insert)
    assert (applied.rows, applied.dead_letters) == (3, 1)
    assert (rows(lake), dead(lake)) == ([0, 2, 3], [(1, "odd")])


def test_their_table_is_another_one(lake: Lake) -> None:
    """However its name is written."""
    with pytest.raises(SettingsError, match="the table itself"):
        lake.sink("t", dead_letters=f"{lake.name}.{lake.namespace}.t")


def test_their_table_is_made_before_there_is_a_letter(lake: Lake) -> None:
    """So that its readers need not wait for the first; create=False is for both tables."""
    write(lake, batch(lake, 0, odd=()), entry(lake, 0), dead_letters=None)
    with pytest.raises(SettingsError, match=r"bad.* does not exist.*create=False"):
        write(lake, batch(lake, 1), entry(lake, 1), create=False)
    assert rows(lake) == [0, 1, 2, 3]
    write(lake, batch(lake, 1, odd=()), entry(lake, 1))
    assert (rows(lake), dead(lake)) == (list(range(8)), [])


def crash_and_repeat(lake: Lake, point: str) -> None:
    """A driver dies at `point`; its successor finds other rows odd, and goes on."""
    write(lake, batch(lake, 0), entry(lake, 0))
    one = entry(lake, 1)
    with broken_off(point), pytest.raises(Killed):
        write(lake, batch(lake, 1), one)
    done = lake.sink("t").applied(QUERY)[TP].range.until == 2 * _SIZE
    assert done == (point in ("sink.committed", "sink.letters-published")), point
    if not done:
        assert dead(lake) == [(1, "odd")], point
        again = entry(lake, 1, "run-2")
        write(lake, batch(lake, 1, odd=(2, 3), mark="again"), again)
    odd = [(5, "odd")] if done else [(6, "again"), (7, "again")]
    assert dead(lake) == [(1, "odd"), *odd], point
    write(lake, batch(lake, 2), entry(lake, 2, "run-2"))
    assert dead(lake) == [(1, "odd"), *odd, (9, "odd")], point
    lost = {offset for offset, _ in dead(lake)}
    assert sorted([*rows(lake), *lost]) == list(range(3 * _SIZE)), point
    left = [name for name in lake.java("bad").branches if name.startswith("eo_")]
    assert len(left) == 1, point


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_neither_loses_nor_doubles_a_letter(lake: Lake, point: str) -> None:
    """At each point of a batch; what is judged again leaves nothing of the try before."""
    crash_and_repeat(lake, point)


def test_who_does_not_ask_first_finishes_the_batch_before(lake: Lake) -> None:
    """The letters of a batch whose driver died are published before the next batch is written."""
    one = entry(lake, 0)
    with broken_off("sink.committed"), pytest.raises(Killed):
        write(lake, batch(lake, 0), one)
    after = entry(lake, 1, found=heads_of(one))
    write(lake, batch(lake, 1, odd=()).drop("eo_poison"), after, dead_letters=None)
    assert dead(lake) == [(1, "odd")]


def test_where_others_write_to_the_table(lake: Lake) -> None:
    """The files are added behind them, and still say where their letters are; the driver dies."""
    write(lake, batch(lake, 0), entry(lake, 0))

    def between(point: str) -> None:
        if point == "sink.commit-sent":
            lake.append("t", [("flights", 0, 100, "other")])
        if point == "sink.committed":
            raise Killed

    with hooked(between), pytest.raises(Killed):
        write(lake, batch(lake, 1), entry(lake, 1))
    assert rows(lake) == [0, 2, 3, 4, 6, 7, 100]
    assert dead(lake) == [(1, "odd")]
    assert sink_of(lake).applied(QUERY)[TP].range.until == 2 * _SIZE
    assert dead(lake) == [(1, "odd"), (5, "odd")]


def test_a_zombie_leaves_no_letter(lake: Lake) -> None:
    """Its batch was judged before its successor's; neither table has anything of it."""
    write(lake, batch(lake, 0), entry(lake, 0))
    one, two = entry(lake, 1), entry(lake, 1, "run-2")

    def overtake() -> None:
        write(lake, batch(lake, 1, odd=(2,), mark="new"), two)

    with once("sink.letters-staged", overtake), pytest.raises(ForeignWriterError):
        write(lake, batch(lake, 1), one)
    assert (rows(lake), dead(lake)) == ([0, 2, 3, 4, 5, 7], [(1, "odd"), (6, "new")])


def test_others_who_write_letters(lake: Lake) -> None:
    """Two tables share a table of letters; what comes between is no obstacle, a DELETE neither."""
    write(lake, batch(lake, 0), entry(lake, 0))
    other = lake.sink("u", dead_letters=lake.table("bad"))

    def between() -> None:
        one = entry(lake, 0, found={})
        other.apply(batch(lake, 0, mark="other"), one, plan_of(one))
        lake.other().sql(f"DELETE FROM {lake.table('bad')} WHERE reason = 'odd'")

    with once("sink.committed", between):
        write(lake, batch(lake, 1), entry(lake, 1))
    assert dead(lake) == [(1, "other"), (5, "odd")]


def test_a_table_of_letters_that_was_dropped(lake: Lake) -> None:
    """Whether it had its last letters, nothing says: the query stops, until that is accepted."""
    write(lake, batch(lake, 0), entry(lake, 0))
    lake.spark.sql(f"DROP TABLE {lake.table('bad')}")
    with pytest.raises(SinkError, match=r"bad.* is gone"):
        sink_of(lake).applied(QUERY)
    accepting = sink_of(lake, on_expired="accept")
    one = entry(lake, 1, found=accepting.applied(QUERY))
    accepting.apply(batch(lake, 1), one, plan_of(one))
    assert dead(lake) == [(5, "odd")]
    assert sink_of(lake).applied(QUERY)[TP].range.until == 2 * _SIZE


def test_after_a_rollback_letters_stay(lake: Lake) -> None:
    """The table goes back alone; what is read again brings its letters once more."""
    write(lake, batch(lake, 0), entry(lake, 0))
    before = lake.java("t").main
    write(lake, batch(lake, 1), entry(lake, 1))
    lake.roll_back("t", before)
    write(lake, batch(lake, 1), entry(lake, 1, "run-2"))
    assert (rows(lake), dead(lake)) == ([0, 2, 3, 4, 6, 7], [(1, "odd"), (5, "odd"), (5, "odd")])


def test_expired_and_compacted(lake: Lake) -> None:
    """The branch of the last letters keeps their ledger, whatever else expires."""
    for number in range(2):
        write(lake, batch(lake, number), entry(lake, number))
    lake.expire("bad")
    lake.expire("t")
    assert sink_of(lake).applied(QUERY)[TP].range.until == 2 * _SIZE
    write(lake, batch(lake, 2), entry(lake, 2))
    assert dead(lake) == [(1, "odd"), (5, "odd"), (9, "odd")]


def test_a_table_that_is_kept_tidy(lake: Lake) -> None:
    """If nothing proves that main once had the last letters, each still comes in once."""
    name = lake.table("bad")

    def tidy() -> None:
        row = "'q', 'q', 'r', 0L, 'flights', 0, 99L, 'other', '{}', current_timestamp()"
        for _ in range(2):  # the file of metadata before the last still has what has just expired
            lake.other().sql(f"DELETE FROM {name}")
            lake.other().sql(f"INSERT INTO {name} SELECT {row}")
            lake.expire("bad")

    write(lake, batch(lake, 0), entry(lake, 0))
    keep = (
        lake.java("bad")._table.updateProperties().set("write.metadata.previous-versions-max", "1")
    )
    keep.set("write.metadata.delete-after-commit.enabled", "true").commit()
    write(lake, batch(lake, 1), entry(lake, 1))
    tidy()
    write(lake, batch(lake, 2), entry(lake, 2))
    assert dead(lake) == [(9, "odd"), (99, "other")]
    tidy()
    assert sink_of(lake).applied(QUERY)[TP].range.until == 3 * _SIZE
    assert dead(lake) == [(99, "other")]
    last = entry(lake, 3)
    with broken_off("sink.committed"), pytest.raises(Killed):
        write(lake, batch(lake, 3), last)
    tidy()
    for _ in range(2):
        assert sink_of(lake).applied(QUERY)[TP].range.until == 4 * _SIZE
        assert dead(lake) == [(13, "odd"), (99, "other")]


def test_an_answer_that_is_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the letters' commit: unknown, as the batch is published; then the ledger is read."""
    write(lake, batch(lake, 0), entry(lake, 0))
    real = IcebergTable.publish
    calls: list[str] = []

    def lost(self: IcebergTable, branch: str, **given: Any) -> None:
        real(self, branch, **given)
        calls.append(branch)
        if len(calls) == 2:
            raise SinkError("the answer was lost")

    monkeypatch.setattr(IcebergTable, "publish", lost)
    sink = sink_of(lake)
    one = entry(lake, 1)
    with pytest.raises(OutcomeUnknownError):
        sink.apply(batch(lake, 1), one, plan_of(one))
    assert sink.applied(QUERY)[TP].range.until == 2 * _SIZE
    assert (len(calls), dead(lake)) == (2, [(1, "odd"), (5, "odd")])


def staging(then: Callable[[DeadLetterTables, LettersOfBatch], object]) -> Callable[..., Any]:
    """What stages letters, and does this with them."""
    real = DeadLetterTables.stage

    def stage(self: DeadLetterTables, *given: Any, **more: Any) -> LettersOfBatch:
        found = real(self, *given, **more)
        then(self, found)
        return found

    return stage


def letters_first(patch: pytest.MonkeyPatch) -> None:
    stage = staging(lambda tables, letters: tables.publish(letters.encode(), "run"))
    patch.setattr(DeadLetterTables, "stage", stage)


def finished_by_nobody_else(patch: pytest.MonkeyPatch) -> None:
    real, staged = DeadLetterTables.publish, dict[int, int]()

    def publish(self: DeadLetterTables, text: str, *given: Any) -> None:
        if staged.get(id(self)) == LettersOfBatch.decode(text).number:
            real(self, text, *given)

    stage = staging(lambda tables, letters: staged.update({id(tables): letters.number}))
    patch.setattr(DeadLetterTables, "publish", publish)
    patch.setattr(DeadLetterTables, "stage", stage)


def staged_taken_for_published(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeadLetterTables, "_is_published", lambda *_: True)


def published_each_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeadLetterTables, "_is_published", lambda *_: False)


def batch_without_its_letters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Publication, "_summary", lambda _, staged: {PROPERTY: staged.ledger})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "point"),
    [
        (letters_first, "sink.begun"),
        (finished_by_nobody_else, "sink.committed"),
        (staged_taken_for_published, "sink.committed"),
        (published_each_time, "sink.letters-published"),
        (batch_without_its_letters, "sink.committed"),
    ],
)
def test_planted_bugs_are_found(
    lake: Lake, plant: Callable[..., None], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by the test of crashes, at a point."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, EoListenerError)):
        crash_and_repeat(lake, point)


@pytest.mark.slow
@pytest.mark.parametrize("planted", [False, True], ids=["kept", "computed twice"])
def test_each_row_is_in_one_of_the_tables(lake: Lake, planted: bool) -> None:
    """Also where a transform marks other rows each time that it is computed."""
    frame = lake.spark.range(0, 400, 1, 1).selectExpr("'flights' topic", "0 partition", "id offset")
    with pytest.MonkeyPatch.context() as patch:
        if planted:
            patch.setattr(dead_letters, "keep_rows", nullcontext)
        unstable = udf(lambda: random.random() < 0.3, "boolean").asNondeterministic()
        frame = frame.withColumn("eo_poison", when(unstable(), "x"))
        applied = write(lake, frame, entry(lake, 0))
    there = sorted([*rows(lake), *(offset for offset, _ in dead(lake))])
    assert (there == list(range(400))) != planted
    assert applied.dead_letters > 0
