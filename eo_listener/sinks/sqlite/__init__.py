"""SQLite: rows and ledger in one file, without a server.

- A transaction begins with `BEGIN IMMEDIATE`. A new file gets a write-ahead log with
  `synchronous=FULL`; an existing rollback journal is kept, with `synchronous=EXTRA`. All names are
  `main."..."`.
- Refused: paths on network file systems, on which neither the log nor locks can be trusted, and
  columns whose type affinity would change a value.
- Nothing can end a stopped process that holds its lock. So the wait is bounded, and the error
  names the process.
"""

from __future__ import annotations

from eo_listener.sinks.sqlite.sink import SqliteSink

__all__ = ["SqliteSink"]
