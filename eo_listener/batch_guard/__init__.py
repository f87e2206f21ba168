"""Judges, for `exactly_once` and for the audit, if a planned batch is the next batch for a sink.

How a batch is judged, by offset ranges, partition by partition (`judge_batch`):

- FIRST: the partition has no head, and the query begins with this batch: no earlier batch has read
  the partition, or no offset comes before the range.
- NEXT: the range starts where the head ends.
- REPLAY: the range is the head's range, and the same checkpoint of this query has moved the head
  there.
- Anything else is an error; if a batch has several, the guard raises the gravest. Gravest first:
  topic recreated, new checkpoint (of sources other than Kafka), partition vanished, regression (the
  batch starts or ends below the head, or the log was truncated), overlap, not in the ledger, gap
  (also: Kafka deleted records before they were read), some ranges replayed and others not.
- On request the guard accepts a gap (`on_gap`), a ledger that begins in mid-stream (`on_first`), or
  a recreated topic that is read from its start (`on_recreated`).

A partition without a head:

- The guard doubts such a partition for two reasons: earlier batches of the checkpoint planned the
  partition (`PlannedBatch.continued`), or the same query id has heads under other names in that
  store's ledger (`Sink.moved_by`). The runner reads these heads in the first batch of a run (a
  query that was renamed and renamed back has heads under both names; the model found that case),
  and if a head is missing. Other names that the same run uses, with several sinks or several
  `exactly_once` in one function, are no reason for doubt (`process_writes`).
- Before the guard refuses such a partition, the plan reader finds out where the query began to read
  (`sources/<n>/0`, see `from_the_beginning`): if a range still starts there, no batch has read
  anything of the partition. For a live query Spark reads that file, from any file system that it
  writes to. But if the file is missing, Spark would resolve `startingOffsets` now and write the
  result, so the plan reader first checks that the file exists.
- Rows that the store has from the same query id under an old name or an old table are never
  written again, whatever the user accepts: after `ALTER TABLE ... RENAME` the old key and the new
  key are one table. Tables of the same run do not count as old.
- An empty range moves no head, but it creates a missing head. So a partition that loses its first
  records before the first batch with data counts as a gap, and not as FIRST.

Facts that count, and facts that do not:

- The guard does not use a batch's number, with two exceptions. A batch without any new offset still
  has rows if the watermark of a stateful query moves. Its ranges prove nothing, so for such a batch
  alone, the query's id and the batch's number in the heads decide if it was applied.
- Sources other than Kafka are counted (`next_move`): all such sources of a query are one partition,
  whose offset is the number of the batch. If only the number counted, a batch that was planned
  again (after the loss of `offsets/N`, or in a copy of the checkpoint) would count as a replay.
  Such a batch reads other files, although Spark's text for them may be the same
  (`{"logOffset":7}`). But the time in `offsets/N` differs, because Spark writes it when it plans
  the batch, and reads it at a restart. So the head has a digest of that file, and the guard
  compares each batch with the previous one.
- Topic ids have no order. If the ledger's id differs from the plan's, the runner queries Kafka
  again after it has read the ledger (`on_recreated="restart"` only), so that the plan's id is the
  newer one. Otherwise a driver that was suspended while its topic was recreated would mistake its
  old topic for the new one; the model found that case.
- Two sources must not read the same partition: the ledger has one head for it.

Cost:

- The judgement takes about 2 us per partition on a slow machine, half of it for creating the
  `Move`s: 2 ms for 1,000, 29 ms for 10,000 (`python -m benchmarks.guard`). Judging all partitions
  at once by comprehensions, or bypassing the constructor, was a fifth faster at most, so the code
  stays readable; the plan and the ledger's statements cost more.
"""
