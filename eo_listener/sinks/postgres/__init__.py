"""PostgreSQL: rows by COPY, in the transaction that moves the ledger."""

from eo_listener.sinks.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
