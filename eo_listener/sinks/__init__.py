"""Stores that take a batch's rows and its ledger entry in one transaction, a package a store.

The packages are independent of each other, and equal steps have equal file names: `sink` (what a
user names), `connection`, `catalog` (the tables), `types`, `merge` (upserts), `user_sql`
(`apply=`), `ledger`, `errors`. The modules next to them are shared: the ledger's statements, the
target's checks, dead letters, upserts with Spark's MERGE, and the transfer of rows from Spark.

Rows on the driver (`arrow_rows`, `fetch_plan`):

- A task's rows come to the driver's JVM as a whole. So batches are cut into tasks by their planned
  rows, and by how large the rows of the batch before were.
- `toLocalIterator` runs two tasks at a time, on a cluster of any size. So with more than two cores
  one job computes all tasks, and the executors keep Arrow's messages until a few tasks at a time
  are read. `fetch_plan` decides this, without Spark.
- The cut goes by the rows' positions. Spark's round robin sorts by their content: when an executor
  is lost midway, rows that are computed again would fall into tasks that were read already (seen:
  6,665 of 60,000 rows lost with a UDF that gives random ids, while the ledger moved).
- A DataFrame with a shuffle of the user's, or one that Spark calls nondeterministic, is computed
  by one job, kept, and then read with its lineage cut (`localCheckpoint`): a part that is lost is
  an error. The same goes for one that was cut by us and is kept. Any other is kept by `persist`,
  and Spark computes a lost part again.
"""
