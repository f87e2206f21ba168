"""Delta Lake: rows and ledger in one commit of the table itself.

- A commit has the rows, Delta's `txnAppId` and `txnVersion`, and in `userMetadata` all heads of the
  query. `txnAppId` names the query, and `txnVersion` numbers its batches in this table, so the next
  number is always the last number plus one. Delta compares it with the table's number, under its
  own optimistic concurrency control: this comparison is the compare-and-set.
- Delta silently skips a number that is not greater. So each try has its own id, and the sink counts
  the batch as written when it finds the commit with this id in the log.
- The sink reads the ledger from the files of `_delta_log`, the newest first: a batch reads the
  commits since the previous batch, most often only that batch's own. Delta would build its
  `snapshot.transactions` again after each commit. The sink reads them only once, for a table whose
  newest commits have no batch of a sink.
- RESTORE rolls back the heads, but not `txnVersion`. So Delta's numbers cannot show a RESTORE
  between the time when the sink judged a batch and its commit. The version by which it judged the
  batch (`base`) shows the RESTORE afterwards; then the sink refuses the ledger, and names the
  command that removes the batch.
- The table's log retention (`delta.logRetentionDuration`) can delete the heads while `txnVersion`
  stays. The sink refuses such a ledger, and does not guess.
- The sink writes a batch to the location of the table by which it judged the batch, never to a
  name, which may come to mean another table. The table's id shows such a change with the next
  batch.
- MERGE takes all these values from settings of its session, so it runs in a clone of the query's
  session that exists only in the JVM. A compaction that follows in this clone repeats
  `userMetadata`; without a `txnVersion` it does not count as a batch.
"""

from __future__ import annotations

from eo_listener.sinks.delta.sink import DeltaSink

__all__ = ["DeltaSink"]
