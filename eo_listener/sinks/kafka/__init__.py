"""The Kafka sink: writes rows and ledger in one transaction of one cluster.

Not supported yet: dead letters with `write_method="executors"`, and clusters that only Java's
client can log in to.

- Each sink and query has its own transactional id, which never changes. Each attempt to write a
  batch makes a new producer: its `init_transactions` fences the earlier producer, and ends a
  transaction that the earlier producer left open. Only then does the sink read the ledger and
  compare it with the heads by which the batch was judged, because from then on no other producer
  can move these heads.
- The module `transaction` has the order of the steps and the comparisons between them. The models
  (`tests/model_checking`) run its code.
- With `write_method="executors"`, tasks join the driver's transaction (`executor_writer`), and rows
  never leave the JVM. `jvm-shim/README.md` describes the tasks.
- After a failed attempt to write a batch, the sink does not call `abort_transaction`:
  `init_transactions` of another producer ends the transaction. An abort would leave the epoch as it
  is. Then a late request of a task, or a request that is still in the network, could begin a
  transaction that nobody ends (with brokers older than 3.6, or with
  `transaction.partition.verification.enable=false`). Waiting for the transaction's time-out is no
  alternative: readers under `read_committed` would wait as well.
- Before the commit, the sink compares the transaction's partitions with the partitions that were
  written. This shows whether a task has aborted the transaction, unless a request to add one of the
  partitions arrives twice, the second time after the abort. So no task may abort the transaction.
- The ledger is a compacted topic on the same cluster; each read of the ledger goes up to the
  topic's current high watermark.
- `applied` never fences, because another driver may be running when it is called.

Without transactions:

- The module `unfenced` has the order of the steps and all decisions, and `tail` judges the records
  of a target; the models run the code of both.
- When a batch begins, the sink stores the ends of its targets. After a crash, the identities of the
  records after these ends show which rows are missing. The number of these records would not show
  it: tasks write the partitions in parallel, and other producers may write to them too.
- For a finished batch, the sink still compares the number of new offsets with the number of rows.
  Each acknowledged row has an offset after the stored ends. So if the numbers are equal, nothing
  else was written. Only if the numbers differ does the sink read the target back, and count its
  rows by identity: records of other producers may hide that rows were lost.
- The producer of the ledger's records stops at the first record that it cannot deliver
  (`enable.gapless.guarantee`): otherwise the record of a begun batch could hide that earlier heads
  are missing.
- The sink does not keep a task's producer for the next batch, because a killed task may continue.
  So after each batch the brokers remember one more producer id for each partition, for
  `producer.id.expiration.ms`.
- The identity of a row without a key determines the row's partition. Kafka's own choice would
  differ each time, so rows that a replay adds could come before existing rows, and the order of
  rows would change.
- The task that has all rows of a partition sorts them. `task_rows` lists the possible faults of a
  task, and the measure against each fault.
"""

from __future__ import annotations

from eo_listener.sinks.kafka.sink import KafkaSink

__all__ = ["KafkaSink"]
