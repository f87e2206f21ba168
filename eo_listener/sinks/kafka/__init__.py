"""The Kafka sink: writes rows and ledger in one transaction of one cluster.

Not supported yet: dead letters with `write_method="executors"`, and clusters that only Java's
client can log in to.

- Each sink and query has its own transactional id, which never changes. Each try of a batch makes a
  new producer: `init_transactions` fences the earlier producer, and ends the transaction that it
  left open. Only then does the sink read the ledger and compare it with the heads by which the
  batch was judged: now nobody else can move them.
- `transaction` has the order of the steps and the comparisons between them; the models run it.
- With `write_method="executors"`, tasks join the driver's transaction (`executor_writer`), and rows
  never leave the JVM. `jvm-shim/README.md` describes what happens there.
- After a failed try, `init_transactions` of another producer ends the transaction, not
  `abort_transaction`. An abort leaves the epoch as it is, so that a late request of a task, or one
  that is still in the network, could begin a transaction that nobody ends (brokers older than 3.6,
  or `transaction.partition.verification.enable=false`). Waiting for the transaction's time-out is
  no alternative: readers under `read_committed` would wait as well.
- The comparison of the partitions before the commit shows if a task has aborted the transaction;
  but not if a request to add one of the partitions arrives twice, the second time after the abort.
  So no task may abort.
- The ledger is a compacted topic on the same cluster; each read goes up to its current high
  watermark.
- `applied` never fences, because another driver may be at work when it is called.

Without transactions:

- `unfenced` has the order of the steps and all decisions, `tail` the judgement of a target's
  records; the models run both.
- After a crash, the identities of the records after the ends that were stored when the batch began
  show which rows are missing. Their number would not: partitions are written in parallel, and other
  producers may write.
- A finished batch is still checked by a count. Each acknowledged row has an offset after those
  ends, so if there are no more offsets than rows, nothing else was written. Only if the numbers
  differ does the sink read the target back, and count its rows by identity: records of other
  producers may hide that rows were lost.
- The producer of the ledger's records stops at the first record that it cannot deliver
  (`enable.gapless.guarantee`): otherwise the record of a begun batch could hide that earlier heads
  are missing.
- A task's producer is not kept for the next batch, because a killed task may go on. So each batch
  leaves a producer id for each partition on the brokers, for `producer.id.expiration.ms`.
- The identity of a row without a key chooses its partition. Kafka's own choice differs each time,
  so rows that a replay adds could come before existing rows, and the order of rows would change.
- Rows are sorted within the task that has all rows of a partition. `task_rows` lists the faults of
  a task, and the measure against each.
"""

from __future__ import annotations

from eo_listener.sinks.kafka.sink import KafkaSink

__all__ = ["KafkaSink"]
