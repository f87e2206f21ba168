"""python -m tests.sinks.sqlite.holder FILE: takes the write lock of a database, and keeps it."""

from __future__ import annotations

import sqlite3
import sys
import time

if __name__ == "__main__":
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO t VALUES (-1)")
    print("held", flush=True)  # noqa: T201  # it tells the test
    time.sleep(600)
