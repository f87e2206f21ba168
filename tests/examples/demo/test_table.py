"""What the demo counts in the table, by another way than the sink's."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eo_listener.model.errors import FormatError
from examples.demo.demo_settings import DemoStore
from examples.demo.demo_target import DemoTarget
from examples.demo.job_messages import News
from examples.demo.stored_rows import Rows
from examples.demo.table import Table


@pytest.fixture
def target(tmp_path: Path) -> DemoTarget:
    return DemoTarget(store=DemoStore.SQLITE, where=str(tmp_path / "t.sqlite"), label="")


def fill(target: DemoTarget, *rows: tuple[str, int, int]) -> None:
    """Make the table with these records of flights from Newark at 9."""
    with closing(sqlite3.connect(target.where)) as connection:
        connection.execute(
            'CREATE TABLE flights (topic, "partition", "offset", origin, hour, dep_delay)'
        )
        connection.executemany("INSERT INTO flights VALUES (?, ?, ?, 'EWR', 9, 4)", rows)
        connection.commit()


def test_rows_are_counted_by_partition_and_as_a_whole(target: DemoTarget) -> None:
    """A record's second row counts as a row, not as a record; strays only count in the whole."""
    own = [("flights", 0, 0), ("flights", 0, 1), ("flights", 0, 1), ("flights", 1, 0)]
    strays = [("flights", 0, 2), ("flights", 1, -1), ("flights", 2, 0), ("other", 0, 0)]
    fill(target, *own, *strays)
    counted, whole = Table(target).count({0: 2, 1: 1})
    assert counted == {0: Rows(found=3, records=2), 1: Rows(found=1, records=1)}
    assert whole == 8


def test_a_table_that_is_not_there_yet_is_no_news(target: DemoTarget) -> None:
    """Before the first batch nothing is seen, and afterwards what is there."""
    table = Table(target)
    table.read()
    assert (table.counted, table.delays) == (0, ())
    fill(target, ("flights", 0, 0), ("flights", 0, 1))
    table.read()
    assert table.counted == 2
    assert [(one.origin, one.minutes) for one in table.delays] == [("EWR", 4.0)]


def test_news_are_read_as_they_are_written() -> None:
    """And what is no news is an error that shows the line."""
    news = News(what="failed", problem="a\nb", fix="c")
    assert News.parse(news.line()) == news
    assert news.line().count("\n") == 1
    for line in ("WARN something\n", "[1]\n", '{"who": 1}\n'):
        with pytest.raises(FormatError):
            News.parse(line)


def test_a_target_keeps_its_secret() -> None:
    """A DSN is in no repr, and reaches the driver whole."""
    target = DemoTarget(
        store=DemoStore.POSTGRES, where="postgresql://u:secret@h/d", label="PostgreSQL"
    )
    assert "secret" not in repr(target)
    assert DemoTarget.parse(target.text()) == target
