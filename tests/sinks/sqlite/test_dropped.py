"""A table that is gone, of which the ledger knows rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.sinks.sqlite.database import ask, script


def test_a_batch_of_a_new_partition_does_not_recreate_it(tmp_path: Path) -> None:
    """The rows of all partitions are missing, also of those that the batch has nothing of."""
    path = tmp_path / "t.sqlite"
    sink = SqliteSink(path, "t")
    sink.applied(QUERY)
    rows = pa.record_batch({"id": pa.array([1], pa.int64())})
    old, new = TopicPartition("flights", 0), TopicPartition("flights", 1)
    sink._apply(rows.schema, iter([rows]), entry_of({}, {old: OffsetRange(0, 7)}))
    script(path, "DROP TABLE t")
    entry = entry_of(sink.applied(QUERY), {new: OffsetRange(0, 1)}, batch_id=1)
    with pytest.raises(SettingsError, match="flights-0 was written up to 7"):
        sink._apply(rows.schema, iter([rows]), entry)
    assert ask(path, "SELECT name FROM sqlite_schema WHERE name = 't'") == []
    sink.close()
