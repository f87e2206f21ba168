"""The SQLite sink: rows and ledger in one file, without a server.

- A transaction begins with `BEGIN IMMEDIATE`. A new file gets a write-ahead log, with
  `synchronous=FULL`; a file that has a rollback journal keeps it, with `synchronous=EXTRA`. Every
  statement qualifies names, as in `main."..."`.
- The sink refuses paths on network file systems, on which neither the log nor locks can be trusted,
  and columns whose type affinity would change a value.
- The sink cannot end a stopped process that holds the lock. So it limits the wait, and its error
  names the process.
"""

from __future__ import annotations

from eo_listener.sinks.sqlite.sink import SqliteSink

__all__ = ["SqliteSink"]
