"""MERGE by key into an Iceberg table: on the branch of the batch, and computed on main as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyspark
import pytest

from eo_listener.errors import PoisonRowError
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.iceberg import IcebergSink
from eo_listener.sinks.iceberg.names import is_branch_of, new_branch
from eo_listener.sinks.iceberg.publication import Publication, Staged
from eo_listener.spark.jvm.iceberg_table import MAIN
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of, rows_of
from tests.sinks.chapters.store import once
from tests.sinks.chapters.target_table import TP, Row, row
from tests.sinks.chapters.upsert_by_merge import UpsertByMergeChapter
from tests.sinks.iceberg import test_conformance as appends
from tests.sinks.iceberg.lake import IcebergTarget

pytestmark = pytest.mark.spark


@pytest.mark.slow
class TestConformance(appends.TestIcebergSink):
    """An upsert is written as what is appended."""

    def open_sink(self, target: str) -> IcebergSink:
        return self.lake.sink(target, mode="upsert", keys=("topic", "partition", "offset"))

    def test_a_next_batch_follows(self) -> None:
        """Rows replace those before them that have their key."""
        first = entry_of({}, {TP: OffsetRange(0, 2)})
        with self.opened() as sink:
            self.write(sink, first)
            second = entry_of(sink.applied(QUERY), {TP: OffsetRange(2, 4)}, batch_id=1)
            rows = [(*one[:3], "again") for one in rows_of(first)]
            self.write(sink, second, rows)
        self.check(rows, heads_of(second))

    def test_a_batch_without_ranges_marks_the_heads(self) -> None:
        """Its row, which comes from state alone, replaces that of its key."""
        first = entry_of({}, {TP: OffsetRange(0, 2)})
        with self.opened() as sink:
            self.write(sink, first)
            empty = entry_of(sink.applied(QUERY), {TP: OffsetRange(2, 2)}, batch_id=1)
            self.write(sink, empty, [(*TP, 0, "from state")])
        self.check([(*TP, 0, "from state"), rows_of(first)[1]], heads_of(empty))


class TestUpsert(IcebergTarget, UpsertByMergeChapter):
    """Into tables of a catalog in a database."""

    def check_recomputed(self) -> None:
        """A newer row that comes to main while an older one is merged stays."""
        options = {"version_column": "at"}
        self.upsert([row(1, "first", 0, at=1), row(2, "other", 1, at=1)], **options)
        newer = "UPDATE {table} SET word = 'foreign', at = 9 WHERE id = 1"
        late = [row(1, "late", 2, at=2), row(2, "next", 3, at=2)]
        with once("sink.commit-sent", lambda: self.run(newer)):
            self.upsert(late, **options)
        assert self.read("id", "word") == [(1, "foreign"), (2, "next")]

    def branches(self) -> int:
        return sum(is_branch_of(QUERY, name) for name in self.lake.java(self.table).branches)

    def test_where_main_has_moved_the_merge_is_computed_again(self) -> None:
        """From the same rows, and then it sees what has come."""
        self.check_recomputed()
        assert self.branches() == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("plant", [0, 1], ids=["files-added-again", "main-replaced"])
    def test_a_merge_that_is_published_after_main_has_moved_is_found(
        self, plant: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its files behind the other commit, or its branch in the place of it."""
        monkeypatch.setattr(Publication, "_check_valid", lambda *_: None)
        monkeypatch.setattr(Publication, "_move_main", (files_added_again, main_replaced)[plant])
        with pytest.raises(AssertionError):
            self.check_recomputed()

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
    def test_rows_change_their_partition(self, mode: str) -> None:
        """Both ways in which Iceberg writes a MERGE; main has all of a batch, or nothing."""
        options = {
            "properties": {"write.merge.mode": mode},
            "partition_by": "word",
            "delete_when": "word = 'gone'",
        }
        self.upsert([row(1, "a", 0), row(2, "b", 1), row(3, "c", 2)], **options)
        seen: list[Any] = []
        with once("sink.rows-written", lambda: seen.append(self.read("id", "word"))):
            self.upsert([row(1, "b", 3), row(2, "gone", 4), row(4, "a", 5)], **options)
        assert seen == [[(1, "a"), (2, "b"), (3, "c")]]
        assert self.read("id", "word") == [(1, "b"), (3, "c"), (4, "a")]
        files = self.lake.other().table(f"{self.lake.table(self.table)}.delete_files").count()
        assert (files > 0) == (mode == "merge-on-read")

    def upsert_once(self, act: Callable[[], object], given: Row, **options: Any) -> None:
        """Upsert a row while something comes first: that is no conflict, nothing is done again."""
        points: list[str] = []

        def hook(point: str) -> None:
            points.append(point)
            if point == "sink.commit-sent" and points.count(point) == 1:
                act()

        with hooked(hook):
            self.upsert([given], **options)
        assert points.count("sink.rows-written") == 1

    @pytest.mark.parametrize(
        ("expired", "mode"),
        [(False, "merge-on-read"), (True, "merge-on-read"), (False, "copy-on-write")],
    )
    def test_a_file_with_a_deletion_vector(self, expired: bool, mode: str) -> None:
        """Which another one replaces, or which is written anew, is no conflict behind an append."""
        if mode == "copy-on-write" and pyspark.__version__.startswith("3.5."):
            pytest.skip("Iceberg's writer for Spark 3.5 fails: it knows no row lineage")
        options = {"properties": {"write.merge.mode": "merge-on-read", "format-version": "3"}}
        self.upsert([row(n, "old", n) for n in range(6)], [row(0, "new", 6)], **options)
        self.run(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
        if expired:
            self.lake.java(self.table)._table.expireSnapshots().expireOlderThan(2**62).commit()
        foreign = "INSERT INTO {table} VALUES (6, 'foreign', null, null, null)"
        self.upsert_once(lambda: self.run(foreign), row(1, "new", 7), **options)
        words = ["new", "new", "old", "old", "old", "old", "foreign"]
        assert self.read("id", "word") == list(enumerate(words))
        files = self.lake.other().table(f"{self.lake.table(self.table)}.delete_files").count()
        assert files == (1 if mode == "merge-on-read" else 0)

    def test_a_table_that_the_application_has_cached(self) -> None:
        """It reads what was there then until UNCACHE TABLE; no batch is merged with that."""
        name = self.lake.table(self.table)
        self.upsert([row(1, "a", 0)])
        self.lake.spark.sql(f"CACHE TABLE {name}")
        self.upsert([row(2, "b", 1)], [row(2, "c", 2)])
        assert self.read("id", "word") == [(1, "a"), (2, "c")]
        self.lake.spark.sql(f"REFRESH TABLE {name}")
        assert self.lake.spark.table(name).count() == 1
        self.lake.spark.sql(f"UNCACHE TABLE {name}")
        assert self.lake.spark.table(name).count() == 2

    @pytest.mark.slow
    @pytest.mark.parametrize("version", ["2", "3"])
    def test_a_compaction_that_takes_the_deletes_of_other_files_along(self, version: str) -> None:
        """A MERGE beside it is not computed again."""
        options = {
            "properties": {"write.merge.mode": "merge-on-read", "format-version": version},
            "partition_by": "partition",
        }
        self.upsert([row(n, "old", n, n % 2) for n in range(8)], **options)
        self.upsert([row(1, "new", 9, partition=1)], **options)

        def compact() -> None:
            table, jvm = self.lake.java(self.table)._table, self.lake.spark._jvm
            assert jvm is not None
            iceberg = jvm.org.apache.iceberg
            actions = iceberg.spark.actions.SparkActions.get(self.lake.spark._jsparkSession)
            partition = iceberg.expressions.Expressions.equal("partition", 1)
            action = actions.rewriteDataFiles(table).filter(partition)
            action.option("rewrite-all", "true").execute()

        self.upsert_once(compact, row(2, "new", 10), **options)
        words = ["old", "new", "new", "old", "old", "old", "old", "old"]
        assert self.read("id", "word") == list(enumerate(words))

    @pytest.mark.slow
    def test_batches_without_rows_to_insert(self) -> None:
        """One without rows, and ones that only delete, also from a table that is just made."""
        rounds = [[row(1, "gone", 0)], [], [row(1, "a", 1), row(2, "b", 2)]]
        last = [row(1, "gone", 3), row(7, "gone", 4)]
        done = self.upsert(*rounds, last, delete_when="word = 'gone'")
        assert [one.rows for one in done] == [1, 0, 2, 2]
        assert self.read("id", "word") == [(2, "b")]
        assert self.sink().applied(QUERY)[TP].batch_id == 3

    def test_a_uuid_is_one_key_however_it_is_written(self) -> None:
        """Iceberg gives it back in lower case; a text that is no UUID is refused by its row."""
        self.run("CREATE TABLE {table} (word string, partition int, offset bigint) USING iceberg")
        jvm: Any = self.lake.spark._jvm
        kind = jvm.org.apache.iceberg.types.Types.UUIDType.get()
        self.lake.java(self.table)._table.updateSchema().addColumn("id", kind).commit()
        upper = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"
        query = "SELECT '{0}' id, '{1}' word, 'flights' topic, 0 partition, {2}L offset"
        batches = [[(upper, "a", 0), (upper.lower(), "b", 1)], [(upper, "c", 2)]]
        self.merge(*(" UNION ALL ".join(query.format(*one) for one in rows) for rows in batches))
        assert self.read("id", "word") == [(upper.lower(), "c")]
        short = query.format("1-2-3-4-5", "d", 3)  # which Java takes, and fills with zeros
        with pytest.raises(PoisonRowError, match="id is not a UUID") as refused:
            self.merge(short)
        assert refused.value.offset == 3
        sink = self.sink(mode="upsert", keys="id", dead_letters=self.lake.table("bad"))
        assert self.put_frame(sink, self.frame(short)).dead_letters == 1
        assert [one["reason"] for one in self.letters()] == ["column 'id' is not a UUID"]
        appended = self.sink(dead_letters=self.lake.table("bad"), max_dead_letters=1)
        rows = f"{short} UNION ALL {query.format(upper, 'e', 4)}"
        assert self.put_frame(appended, self.frame(rows)).dead_letters == 1
        assert self.read("word") == [("c",), ("e",)]

    @pytest.mark.slow
    def test_names_are_data(self) -> None:
        """Of the table, of keys and of others; columns that the rows lack are null, or stay."""
        self.table = "it's `a.b`"
        columns = "`k.1` int, `a``b` string, c0 string, eo_there string"
        self.run(f"CREATE TABLE {{table}} ({columns}) USING iceberg")
        rows = "SELECT 1 `k.1`, '{0}' `a``b`, '{0}' c0"
        self.merge(rows.format("x"), keys="k.1")
        self.run("UPDATE {table} SET eo_there = 'mine'")
        self.merge(f"{rows.format('y')} UNION ALL SELECT 2, 'z', 'z'", keys="k.1")
        assert self.read("*") == [(1, "y", "y", "mine"), (2, "z", "z", None)]


def files_added_again(self: Publication, staged: Staged) -> None:
    """What is right for an append."""
    again, summary = new_branch(QUERY, "run"), {"eo-ledger": staged.ledger}
    if self.table.main == staged.base:
        self.table.publish(staged.branch, at=staged.base, summary=summary)
    elif self.table.main is not None:
        at = self.table.main
        self.table.publish_again(staged.branch, again, at=at, drop=(), summary=summary)


def main_replaced(self: Publication, staged: Staged) -> None:
    """What is in main by then is not asked for."""
    java = self.table._table
    append = java.newFastAppend().toBranch(staged.branch)
    append.set("eo-ledger", staged.ledger).commit()
    refs = java.manageSnapshots()
    if self.table.main is None:
        refs = refs.createBranch(MAIN, java.snapshot(staged.branch).snapshotId())
    else:
        refs = refs.replaceBranch(MAIN, staged.branch)
    refs.commit()
