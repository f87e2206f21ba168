"""Rows are counted in bounded memory, however many there are."""

from __future__ import annotations

import resource
import sqlite3
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from eo_listener.audit.evidence import AppliedRange, LogFacts
from eo_listener.audit.intervals import Intervals
from eo_listener.audit.proof import prove
from eo_listener.audit.result import AuditFindingKind
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader

_PARTITIONS = 8
_COLUMNS = ("topic", "partition", "offset")


class WholeLog:
    """A log of this many records a partition, every one of which a consumer is shown."""

    def __init__(self, records: int) -> None:
        self._records = records

    def facts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        end = self._records
        facts = LogFacts(start=0, stable=end, end=end, compacted=False, transactional=False)
        return dict.fromkeys(partitions, facts)

    def visible(
        self, partition: TopicPartition, ranges: Intervals, *, committed: bool
    ) -> Intervals:
        return ranges


def fill(path: Path, each: int) -> None:
    """As batches come: all partitions in turns, so that no partition's rows lie together."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA synchronous = OFF")
        made.execute('CREATE TABLE delays (topic TEXT, "partition" INT, "offset" INT)')
        for start in range(0, each, 1000):
            rows = (
                ("flights", number, offset)
                for number in range(_PARTITIONS)
                for offset in range(start, min(start + 1000, each))
            )
            made.executemany("INSERT INTO delays VALUES (?, ?, ?)", rows)
        made.execute('DELETE FROM delays WHERE "partition" = 3 AND "offset" IN (7, 8, 500)')
        made.execute('INSERT INTO delays SELECT * FROM delays WHERE "partition" = 1 LIMIT 2')
        made.commit()


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


@pytest.mark.parametrize(
    "rows", [80_000, pytest.param(10_000_000, marks=pytest.mark.slow)], ids=["some", "ten million"]
)
def test_rows_are_counted_in_bounded_memory(rows: int, tmp_path: Path) -> None:
    """Three are lost and two doubled; the store sorts, and no list of the rows is made."""
    each = rows // _PARTITIONS
    fill(tmp_path / "many.db", each)
    claims = {
        TopicPartition("flights", number): AppliedRange(range=OffsetRange(0, each))
        for number in range(_PARTITIONS)
    }
    with closing(SqliteLedgerReader(tmp_path / "many.db")) as reader:
        begun = time.perf_counter()
        reader.connection().execute("SELECT count(*) FROM delays").fetchone()
        counted, before = time.perf_counter(), peak()
        found = prove(claims, reader.row_origins("delays", _COLUMNS), WholeLog(each))
        print(  # noqa: T201  # for who measures it, with -s
            f"{rows:,} rows: count(*) {counted - begun:.1f} s, proof "
            f"{time.perf_counter() - counted:.1f} s, {(peak() - before) >> 20} MB more"
        )
    sizes: dict[AuditFindingKind, int] = {}
    for one in found:
        sizes[one.kind] = sizes.get(one.kind, 0) + one.range.until - one.range.start
    assert sizes == {AuditFindingKind.MISSING: 3, AuditFindingKind.DUPLICATE: 2}
    assert peak() - before < 64 << 20
