"""Delta Lake: rows and ledger in one commit of the table itself.

- A commit has the rows, Delta's `txnAppId` and `txnVersion`, and in `userMetadata` all heads of the
  query. The application is the query, and the version counts its batches in this table, so the
  next one is always the last one and one. Delta compares it with what the table has, under its own
  optimistic control of concurrency: that is the compare-and-set.
- Delta skips a number that is not greater, and says nothing. So each try has an id of its own, and
  counts as written when the commit with this id is found in the log.
- The ledger is read from the files of `_delta_log`, the newest first: a batch reads what was
  committed since the batch before, most often its own commit alone. Delta's `snapshot.transactions`
  would be built again after each commit. It is asked once, for a table in whose newest commits no
  batch of ours is.
- RESTORE takes the heads back, and no number. A RESTORE between the judgement of a batch and its
  commit cannot be seen by Delta's numbers; the version by which the batch was judged (`base`) shows
  it afterwards, and then the ledger is refused, with the command that takes the batch back.
- The table's retention of its log (`delta.logRetentionDuration`) can delete the heads while the
  number stays. That is refused, and nothing is guessed.
- A batch is written to the place of the table that it was judged by, never to a name: that may
  come to mean another table. The table's id shows it, with the next batch.
- MERGE takes all of it from settings of its session, so it runs in a clone of the query's, in the
  JVM alone. A compaction that follows there repeats `userMetadata`; without a `txnVersion` it is no
  batch.
"""

from __future__ import annotations

from eo_listener.sinks.delta.sink import DeltaSink

__all__ = ["DeltaSink"]
