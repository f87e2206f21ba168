"""Kafka: rows and ledger in one transaction of one cluster.

Not there yet: dead letters with `write_method="executors"`, and clusters that only Java's client
can log in to.

- A transaction has the id of its sink and query, always the same. Its producer is made for one try
  of one batch: `init_transactions` ends whatever an earlier one left open, and fences it. Only then
  is the ledger read and compared with what the batch was judged by: nobody else can move it now.
- `transaction` has the order of the steps and what is compared between them; the models run it.
- With `write_method="executors"` tasks join the driver's transaction (`executor_writer`); rows
  never leave the JVM. `jvm-shim/README.md` describes what happens there.
- A try that has failed is ended by `init_transactions` of another producer, not by
  `abort_transaction`. That leaves the epoch as it is, and what is still on its way, of a task or in
  the network, could then begin a transaction that nobody ends (brokers older than 3.6, or
  `transaction.partition.verification.enable=false`). Nor is it left to its time-out: readers under
  `read_committed` would wait for it.
- Comparing the partitions before the commit finds that a task has aborted the transaction; but not
  if a request to add one of them arrives twice, once after that. So no task may abort.
- The ledger is a compacted topic on the same cluster, read to the high watermark of the moment.
- `applied` never fences: it is asked while another driver may be at work.

Without transactions:

- `unfenced` has the order of the steps and all decisions, `tail` what they are made of; the models
  run it.
- All that a batch lacks after a crash is known from the identities behind the ends that were stored
  when it began. A count would be wrong: partitions are written side by side, and others may write.
- A count still checks a finished batch. Each acknowledged row has an offset behind those ends; if
  there are no more offsets than rows, there can be nothing else. Only if the numbers differ is the
  target read back, and its rows are counted by their identity: records of others may hide that some
  were lost.
- The producer of the ledger's records stops at the first that it cannot deliver
  (`enable.gapless.guarantee`): else that a batch is begun could hide heads that are not there.
- A task's producer is not kept for the next batch, since a task that is killed may go on: so each
  batch leaves the brokers a producer id for each partition, for `producer.id.expiration.ms`.
- A row without a key goes to a partition by its identity. Kafka's own choice is another each time,
  so what a replay adds could come before rows that were there, and its order would be another.
- Rows are sorted within the task that has all rows of a partition. `task_rows` says what can
  happen to a task, and which rule is for it.
"""

from __future__ import annotations

from eo_listener.sinks.kafka.sink import KafkaSink

__all__ = ["KafkaSink"]
