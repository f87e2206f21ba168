"""What others do to a table of a database, and see of it."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.errors import SettingsError
from eo_listener.offsets import OffsetRange
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.sinks.chapters.store import OTHER, TP, Store


class SqlStore(Store):
    """A database, whose ledger lies beside the table; the table's name has a quote."""

    table = '"t\'s"'
    """As SQL writes it."""

    def run(self, statement: str) -> None:
        raise NotImplementedError

    def key_of(self, table: str) -> str:
        return table

    def is_there(self) -> bool:
        raise NotImplementedError


ORIGINS = [("b", 0, 2), ("B", 0, 1), ("b", 0, 1), (None, 0, 5), ("a", 1, 0), ("B", 0, 2)]
COLUMNS = ("topic", "partition", "offset")


class RowOrigins:
    """The chapter of the databases whose rows a command counts; `text` is a type of columns."""

    text = "text"

    def test_rows_come_by_source_offset(self, store: SqlStore) -> None:
        """In the order of bytes; rows without an origin come last. A name is never a statement."""
        store.run(f'CREATE TABLE "De lays" (topic {self.text}, "partition" int, "offset" bigint)')
        for row in ORIGINS:
            values = ", ".join("NULL" if one is None else repr(one) for one in row)
            store.run(f'INSERT INTO "De lays" VALUES ({values})')
        store.sink().applied(QUERY)
        reader: Any = store.repair().reader
        found = list(reader.row_origins(store.key_of("De lays"), COLUMNS))
        assert found == [
            *(("B", 0, 1), ("B", 0, 2), ("a", 1, 0), ("b", 0, 1), ("b", 0, 2)),
            (None, 0, 5),
        ]
        with pytest.raises(SettingsError, match="no column 'at'"):
            list(reader.row_origins(store.key_of("De lays"), ("topic", "partition", "at")))
        with pytest.raises(SettingsError, match="no table"):
            list(reader.row_origins("x; DROP TABLE eo_ledger", COLUMNS))


class DroppedTables:
    """The chapter of the databases."""

    def test_a_table_that_never_had_rows_is_made_again(self, store: SqlStore) -> None:
        """Nothing is missing in it."""
        store.write({TP: OffsetRange(0, 0)})
        store.run(f"DROP TABLE {store.table}")
        store.write({TP: OffsetRange(0, 3)}, 1)
        assert store.offsets() == [0, 1, 2]

    @pytest.mark.parametrize("tp", [TP, OTHER], ids=["its partition", "a new partition"])
    def test_a_dropped_table_is_not_recreated(self, store: SqlStore, tp: object) -> None:
        """It would begin in the middle; what the error tells to run makes an empty one."""
        store.write({TP: OffsetRange(0, 10)})
        store.run(f"ALTER TABLE {store.table} RENAME TO kept")
        before, sink = store.heads(), store.sink()
        ranges = {TP: OffsetRange(10, 12)} if tp == TP else {OTHER: OffsetRange(0, 2)}
        entry = entry_of(sink.applied(QUERY), ranges, batch_id=1)
        with pytest.raises(SettingsError, match="flights-0 was written up to 10") as raised:
            store.put(sink, entry)
        assert store.heads() == before
        assert not store.is_there()
        store.run(str(raised.value.fix).partition("empty table, run ")[2].rpartition(", and")[0])
        store.put(sink, entry_of(sink.applied(QUERY), ranges, batch_id=2))
        assert len(store.rows()) == 2
