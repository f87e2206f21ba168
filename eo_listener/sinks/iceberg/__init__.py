"""Iceberg: rows and ledger in one snapshot of the table, published by one commit.

- The ledger of a query is in the summary of the snapshot that has its last batch's rows, so a
  rollback takes both back together. Each table has a ledger of its own, which goes with it when it
  is renamed.
- A batch is written on a branch of its own, made from the snapshot whose ledger was compared, and
  main is moved on to it (`fastForwardBranch`). Serializable isolation would not do: it does not
  stop a zombie whose MERGE begins after its successor's commit.
- That commit is made on pinned metadata: it is refused if anything came to main since, a rollback
  too. By itself a fast-forward asks only whether main's head is behind the branch, which it is
  after a rollback as well.
- It is sent once, past `Transaction.commitTransaction`: that tries again by itself, and where its
  own commit was made and its answer lost, deletes files of it. After a refusal the table is read.
- A branch has a name that no other had. A write whose answer was lost, and that lands later, finds
  no branch of this name, or one that is never published.
- If a branch is dropped while it is being written, the next write recreates it from main. So a
  branch that several statements write begins with a snapshot of its own, which must be there.
- The branch of the last batch stays: `expire_snapshots` keeps the head of a branch, and with it the
  ledger. The commit that publishes the next batch drops it, and what earlier runs have left.
- Nothing is read through the session's cache of tables: each step refreshes the metadata first.
"""

from __future__ import annotations

from eo_listener.sinks.iceberg.maintenance import MaintenanceStep, maintain_iceberg
from eo_listener.sinks.iceberg.sink import IcebergSink

__all__ = ["IcebergSink", "MaintenanceStep", "maintain_iceberg"]
