"""The Delta Lake sink: one commit of the table has a batch's rows and its ledger.

- A commit has the rows, Delta's `txnAppId` and `txnVersion`, and in `userMetadata` all heads of the
  query. `txnAppId` names the query, and `txnVersion` numbers its batches in this table, so a
  batch's number is always the previous number plus one. Delta compares this number with the number
  that the table has for the query, under its own optimistic concurrency control: this comparison is
  the compare-and-set.
- Delta silently skips a commit whose number is not greater than the table's number. So each attempt
  to write a batch has its own id, and the sink counts the batch as written only if it finds a
  commit with this id in the table's log.
- The sink reads the ledger from the files of `_delta_log`, from the newest backwards: for a batch
  it reads the commits since the previous batch, most often only the previous batch's own commit. It
  does not read Delta's `snapshot.transactions`, which Delta would build again after each commit,
  except once for a table whose newest commits have no batch of a sink.
- RESTORE rolls back the heads, but not `txnVersion`. So Delta's numbers cannot show a RESTORE that
  comes after the sink has judged a batch and before the batch's commit. The batch's record has the
  table's version by which the sink judged the batch (`base`). This version shows the RESTORE
  afterwards. Then the sink refuses the ledger, and names the command that removes the batch.
- The table's log retention (`delta.logRetentionDuration`) can delete the heads while `txnVersion`
  stays. The sink refuses such a ledger, and does not guess.
- The sink writes a batch to the location of the table whose ledger it has read for the batch. It
  never writes to the table's name, which may later mean another table. At the next batch, the
  table's id shows such a change.
- A MERGE takes `txnAppId`, `txnVersion` and `userMetadata` from settings of its session, so it runs
  in a clone of the query's session that exists only in the JVM. If Delta compacts files in this
  clone after the MERGE, that commit repeats `userMetadata`; it has no `txnVersion`, so it does not
  count as a batch.
"""

from __future__ import annotations

from eo_listener.sinks.delta.sink import DeltaSink

__all__ = ["DeltaSink"]
