"""SQLite as a sink: the embedded default. Rows and ledger lie in one file."""

from __future__ import annotations

from eo_listener.sinks.sqlite.sink import SqliteSink

__all__ = ["SqliteSink"]
