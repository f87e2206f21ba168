"""Rows made by hand, for tests of what the server does.

    python -m tests.sinks.postgres.bare DSN POINT

is a driver that writes offsets 0 to 9, says at POINT that it is there, and goes on when it is told.
"""

from __future__ import annotations

import os
import sys

from eo_listener.model import fault_points
from eo_listener.model.errors import EoListenerError
from eo_listener.model.ledger import Applied, Entry
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import plan_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.postgres.course import TP, next_entry

TABLE = "bare"


def frame(entry: Entry) -> ArrowFrame:
    """A row for each offset."""
    offsets = range(*entry.moves[TP].range)
    return ArrowFrame.rows("id bigint, run string", *((one, entry.run_id) for one in offsets))


def write(sink: PostgresSink, entry: Entry) -> Applied:
    """Write a row for each offset of `entry`."""
    return sink.apply(frame(entry), entry, plan_of(entry))  # type: ignore[arg-type]  # it stands for one


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
