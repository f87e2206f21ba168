"""The sinks, which write a batch's rows and ledger entry in one transaction: a package per store.

The packages are independent of each other. Modules for the same step have the same name in each
package: `sink` (the class that a user names), `connection`, `catalog` (the tables), `types`,
`merge` (upserts), `user_sql` (`apply=`), `ledger`, `errors`. The packages share the modules in this
folder: the ledger's statements, the target's checks, dead letters, upserts with Spark's MERGE, and
the transfer of rows from Spark.

Rows on the driver (`arrow_rows`):

- Spark hands all rows of a task to the driver's JVM at once. So the sinks cut a batch into tasks by
  its planned rows, and by the size of the rows of the previous batch.
- `toLocalIterator` runs only two tasks at a time, however large the cluster is. So with more than
  two cores one job computes all tasks, and the executors keep Arrow's messages until the driver
  reads them, a few tasks at a time. `choose_fetch` decides how the driver fetches a batch, without
  a call to Spark.
- The sinks cut a batch by the rows' positions. They do not use Spark's round robin, which sorts
  rows by their content: if an executor is lost midway, recomputed rows would fall into tasks that
  the driver has already read. (Seen with a UDF that gives random ids: 6,665 of 60,000 rows were
  lost while the ledger moved.)
- If the user's DataFrame has a shuffle, or Spark calls it nondeterministic, one job computes it and
  keeps the rows without their lineage (`localCheckpoint`): a lost part is then an error. The sinks
  do the same with a frame that they have cut. They keep the rows of any other frame by `persist`,
  so that Spark computes a lost part again.
"""
