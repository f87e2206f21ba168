"""The sink's own writing without Spark: rows made by hand, for tests of what the server does.

    python -m tests.sinks.postgres.bare DSN POINT

is a driver that writes offsets 0 to 9, says at POINT that it is there, and goes on when it is told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from typing import Any

import pyarrow as pa

from eo_listener.model import fault_points
from eo_listener.model.errors import EoListenerError, OutcomeUnknownError
from eo_listener.model.ledger import Applied, Entry
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.columns import ColumnLayout
from tests.sinks.postgres.course import TP, next_entry

TABLE = "bare"
SCHEMA: dict[str, Any] = {
    "fields": [{"name": "id", "type": "long"}, {"name": "run", "type": "string"}]
}


def rows(offsets: Sequence[int], run: str) -> Generator[pa.RecordBatch, None, None]:
    """What Spark would have made of a row for each offset."""
    yield pa.RecordBatch.from_pydict({"id": list(offsets), "run": [run] * len(offsets)})


def write(sink: PostgresSink, entry: Entry) -> Applied:
    """Write a row for each offset of `entry`, as `PostgresSink.apply` does with a frame's."""
    writer = sink._writer(entry.query)
    link = sink._kept.connection(writer)
    layout = ColumnLayout.of(SCHEMA, None, sink._target, direct=True)
    link.execute(layout.definition(writer.table, ()))
    offsets = range(*entry.moves[TP].range)
    try:
        return writer.write_arrow(link, layout, rows(offsets, entry.run_id), entry)
    except OutcomeUnknownError:
        sink._kept.remember_unknown_commit()
        raise


def main() -> int:
    """Be a driver that stops at a point for the test's sake."""
    dsn, point = sys.argv[1:]
    sink = PostgresSink(dsn, TABLE)
    entry = next_entry(sink, run="zombie")

    def hook(name: str) -> None:
        if name == point:
            os.write(1, b"there\n")
            os.read(0, 1)

    fault_points.arm(hook)
    try:
        write(sink, entry)
    except EoListenerError as error:
        os.write(1, f"{type(error).__name__}: {error}\n".encode())
        return error.exit_code
    os.write(1, b"written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
