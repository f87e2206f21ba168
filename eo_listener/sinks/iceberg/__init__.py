"""Iceberg: rows and ledger in one snapshot of the table, published by one commit.

- The ledger of a query is in the summary of the snapshot that has its last batch's rows, so a
  rollback removes both together. Each table has its own ledger, which a renamed table keeps.
- The sink writes a batch on a new branch, made from the snapshot whose ledger it has compared, and
  then moves main to the branch (`fastForwardBranch`). Serializable isolation does not suffice: it
  does not stop a zombie whose MERGE begins after its successor's commit.
- The sink makes the publishing commit on pinned metadata: the catalog refuses it if main has moved
  since, even by a rollback. A fast-forward on its own only checks that main's head is an ancestor
  of the branch, which it is after a rollback as well.
- The sink sends this commit once, without `Transaction.commitTransaction`, which retries on its
  own, and deletes files of a commit that succeeded but whose answer was lost. After a refusal the
  sink reads the table.
- Each branch has a new name. A write whose answer was lost, and that arrives later, finds no branch
  of this name, or a branch that is never published.
- If a branch is dropped while it is being written, the next write recreates it from main. So a
  branch that several statements write begins with an extra snapshot, which must still be there.
- The branch of the last batch stays: `expire_snapshots` keeps the head of a branch, and with it the
  ledger. The commit that publishes the next batch drops it, and the branches of earlier runs.
- No step reads through the session's cache of tables: each refreshes the metadata first.
"""

from __future__ import annotations

from eo_listener.sinks.iceberg.maintenance import MaintenanceStep, maintain_iceberg
from eo_listener.sinks.iceberg.sink import IcebergSink

__all__ = ["IcebergSink", "MaintenanceStep", "maintain_iceberg"]
