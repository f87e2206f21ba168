"""Rows made by hand, for tests of what the server does, and a driver that writes them."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from eo_listener.errors import EoListenerError
from eo_listener.model import fault_points
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


def drive(dsn: str, point: str, test: Connection) -> None:
    """Be a driver in a process of its own, which stops at a point until the test lets it go on."""
    sink = PostgresSink(dsn, TABLE)
    entry = next_entry(sink, run="zombie")

    def hook(name: str) -> None:
        if name == point:
            test.send("there")
            test.recv()

    fault_points.arm(hook)
    try:
        write(sink, entry)
    except EoListenerError as error:
        test.send(type(error).__name__)
        sys.exit(error.exit_code)
    test.send("written")
