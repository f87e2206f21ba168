"""Writes each batch of a query to each of its sinks once, and chooses the start of a query.

How a batch is judged, by offset ranges, partition by partition (`judge_batch`):

- FIRST: the partition has no head, and the query begins with this batch: no earlier batch has read
  the partition, or nothing comes before it.
- NEXT: the range starts where the head ends.
- REPLAY: the range is the head's own, moved there by this query's own checkpoint.
- Anything else is an error; of several in a batch the gravest is raised. Gravest first: topic
  recreated, partition vanished, regression (back behind the head, or a truncated log), overlap,
  not in the ledger, gap (also: Kafka deleted records before they were read), some ranges replayed
  and others not.
- Accepted on demand: a gap (`on_gap`), a ledger that begins in mid-stream (`on_first`), a
  recreated topic that is read from its start (`on_recreated`).

The judgement explains; compare-and-set proves. Each head must still be exactly what was read, in
the transaction that holds the rows, and each statement must change exactly one row. That also
stops a zombie or a second driver.

A partition without a head (`batch_guard`):

- It is doubted because of partitions that earlier batches of the checkpoint planned
  (`PlannedBatch.continued`), and because of heads that the same query id has under other names in
  that store's ledger (`Sink.moved_by`). The second is read in the first batch of a run (a query
  that was renamed and renamed back has heads under both names; the model found that history) and if
  a head is missing. Other names that the same run uses, with several sinks or several
  `exactly_once` in one function, prove nothing against it (`process_writes`).
- Before such a partition is refused, the plan reader says where the query began to read
  (`sources/<n>/0`, see `from_the_beginning`): of what still starts there, no batch has read
  anything. For a live query Spark reads that file, from any file system that it writes to. But
  where the file is missing, Spark would resolve `startingOffsets` now and write the result, so its
  existence is checked first.
- Rows that the store has from the same query id under an old name or an old table are never
  written again, whatever is accepted: after `ALTER TABLE ... RENAME` the old key and the new one
  are one table. Tables of the same run are not old ones.
- An empty range moves no head, but it creates a missing one. So a partition that loses its first
  records before the first batch with data shows as a gap, and not as FIRST.

Facts that count, and facts that do not:

- A batch's number is not used, with two exceptions. A batch without any new offset still has rows
  when the watermark of a stateful query moves. Its ranges say nothing, so there, and only there,
  the query's id and the batch's number in the heads decide whether it was applied.
- Sources other than Kafka are counted (`next_move`): all such sources of a query are one partition,
  whose offset is the number of the batch. A number alone would take a batch that was planned again
  for a replay: after the loss of `offsets/N`, or in a copy of the checkpoint. Such a batch reads
  other files, and Spark's text for them may be the same (`{"logOffset":7}`). But the time in
  `offsets/N` differs, since it is written when the batch is planned, and read at a restart. So the
  head has a digest of that file, and each batch is compared with the one before.
- Topic ids have no order. If the ledger has another id than the plan, Kafka is queried again after
  the ledger was read (`on_recreated="restart"` only), so that the plan's id is the newer one.
  Otherwise a driver that was suspended while its topic was recreated would take its old topic for
  the new one; the model found that history.
- Two sources that read the same partition are refused: the ledger has one head for it.
- A replay of a stateful query is computed and its rows are discarded, because Spark 4.2 fails a
  query whose state was not written (SPARK-52008). Of a stateless query nothing is computed.
- The run behind a batch is found by the DataFrame's own session: each run has a clone of its own.
  The thread's local property names the query only where pyspark pins its threads. Under Spark
  Connect the run is not known at all. There Spark starts a process for the function with each
  start of a query, so a run is one process and query id, whatever number of `exactly_once` it
  holds (`plan_reader`).

After a failure (`SinkWriter`):

- A conflict is tried again as a whole.
- After a lost answer to COMMIT the ledger is read until it shows the outcome.
- After a head that is not as it was found, the ledger is read and judged again: a predecessor
  about to end may have written this very batch, and then all is well. Whatever else
  another driver has moved is an error.
- All of this is bounded. Everything else goes to Spark, which ends the query with our text.

A batch that a user's function gives twice within one run:

- After a call that returned, a second call of the same `exactly_once` is refused: the function may
  write in parts, and the second part would be lost, while a refusal costs a restart.
- After a call that failed it is a retry, and the ledger decides. Rows are never compared: whether
  two DataFrames have the same ones is known only for deterministic plans, and costs both.
- A restart of the query has another run id, so the same object takes a batch again that Spark
  repeats.
- Two `exactly_once` for one sink and name are kept apart by who has written the batch or found it
  applied in this run (`process_writes`), since a replay looks the same to both.

Cost:

- A plan takes 7 ms for 1 partition or 100, and 39 for 1,000, nearly all of it Kafka's answers.
- The task ranges (only `atomicity="partition"`) take 6 round trips per task: 0.1 s for 100 tasks,
  1.4 s for 1,000.
- The judgement takes about 2 us per partition on a slow machine, half of it for creating the
  `Move`s: 2 ms for 1,000, 29 ms for 10,000 (`python -m benchmarks.guard`). Judging all partitions
  at once by comprehensions, or bypassing the constructor, was faster by a fifth at most, so it
  stays readable; the plan and the ledger's statements cost more.
"""
