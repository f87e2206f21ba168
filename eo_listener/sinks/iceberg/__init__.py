"""The Iceberg sink: one commit publishes a batch's rows and ledger, as one snapshot of the table.

- The ledger of a query is in the summary of the snapshot that has its last batch's rows, so a
  rollback removes both together. Each table has its own ledgers, and keeps them if it is renamed.
- The sink writes a batch on a new branch, made from the snapshot whose ledger it has compared with
  the batch, and then moves main to the branch (`fastForwardBranch`). Serializable isolation does
  not suffice: it does not stop a zombie whose MERGE begins after the commit of the driver that has
  replaced it.
- The sink makes the publishing commit on one fixed version of the metadata: the catalog refuses the
  commit if main has moved since that version, even by a rollback. A fast-forward on its own only
  checks that main's head is an ancestor of the branch, which is also true after a rollback.
- The sink sends this commit once. It does not call `Transaction.commitTransaction`, which retries,
  and deletes the files of a commit that succeeded but whose answer was lost. After a refusal the
  sink reads the table again.
- Each branch has a new name. If the answer to a write was lost and the write arrives later, the
  write finds no branch of this name, or a branch that is never published.
- If a branch is dropped while statements write to it, the next statement recreates the branch from
  main. So a branch to which several statements write begins with an extra snapshot; the sink checks
  that the snapshot is still there.
- The branch of the last batch stays: `expire_snapshots` keeps the head of a branch, and with it the
  ledger. The commit that publishes the next batch drops this branch and the branches of earlier
  runs.
- No step relies on the session's cache of tables: each step first refreshes the metadata.
"""

from __future__ import annotations

from eo_listener.sinks.iceberg.maintenance import MaintenanceStep, maintain_iceberg
from eo_listener.sinks.iceberg.sink import IcebergSink

__all__ = ["IcebergSink", "MaintenanceStep", "maintain_iceberg"]
