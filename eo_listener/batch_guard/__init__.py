"""Judges, for `exactly_once` and the audit, whether a planned batch is the next one for a sink.

How the guard judges a batch, by its offset range in each partition (`judge_batch`):

- FIRST: the partition has no head, and the query begins to read it with this batch: no earlier
  batch has read the partition, or no offset comes before the range.
- NEXT: the range starts where the head ends.
- REPLAY: the range is the head's range, and the same checkpoint of this query has moved the head
  there.
- Anything else is an error. If a batch has several errors, the guard raises the gravest. The
  errors, gravest first: topic recreated, new checkpoint (of sources other than Kafka), partition
  vanished, regression (the batch starts or ends below the head, or the log was truncated), overlap,
  not in the ledger, gap (also: Kafka deleted records before they were read), some ranges replayed
  and others not.
- On request the guard accepts a gap (`on_gap`), a ledger that begins in mid-stream (`on_first`), or
  a recreated topic that is read from its start (`on_recreated`).

A partition without a head:

- The guard doubts that such a partition is new in two cases: earlier batches of the checkpoint
  planned the partition (`PlannedBatch.continued`), or the same query id has heads under other names
  in the ledger of the sink's store (`Sink.moved_by`). The runner reads the heads under other names
  whenever a head is missing, and always in the first batch of a run, because a query that was
  renamed and renamed back has heads under both names (the model found that case). A name that the
  same run uses, with several sinks or several `exactly_once` in one function, is no reason for
  doubt (`process_writes`).
- Before the guard refuses such a partition, the plan reader finds out where the query began to read
  (`sources/<n>/0`, see `from_the_beginning`): if the range still starts at that offset, no batch
  has read a record of the partition. For a live query Spark itself reads that file, so the file may
  be on any file system that Spark writes to. But if the file is missing, Spark would resolve
  `startingOffsets` now and write the result, so the plan reader first checks that the file exists.
- If the store already has rows of the same query id under an old name or an old table, the guard
  never lets the query write them again, whatever the user accepts: after `ALTER TABLE ... RENAME`,
  the old key and the new key mean the same table. Tables of the same run do not count as old.
- An empty range moves no head, but it creates a missing head. So if a partition loses its first
  records before its first batch with data, that batch counts as a gap, and not as FIRST.

Batch numbers, sources other than Kafka, and topic ids:

- The guard uses a batch's number in two cases only. The first case is a batch without any new
  offset, which still has rows if the watermark of a stateful query moves. Its ranges prove nothing,
  so the query's id and the batch's number in the heads decide whether the batch was applied. The
  second case is sources other than Kafka.
- For sources other than Kafka, the guard counts batches (`next_move`): all such sources of a query
  are one partition, whose offset is the number of the batch. If the guard compared only this
  number, a batch that was planned again (after the loss of `offsets/N`, or in a copy of the
  checkpoint) would count as a replay. Such a batch reads different files, although Spark's text for
  them may be the same (`{"logOffset":7}`). But the time in `offsets/N` differs: Spark writes this
  time when it plans the batch, and reads it back after a restart. So the head has a digest of
  `offsets/N`, the plan id. The guard compares it with the plan ids of the batch and of the batch
  before it.
- Topic ids have no order. If `on_recreated="restart"` is set and the topic id in the ledger differs
  from the id in the plan, the runner asks Kafka for the id again. This answer is newer than the
  ledger, which the runner has already read. Without the second request, a driver that was suspended
  while its topic was recreated would mistake its old topic for the new one; the model found that
  case.
- Two sources must not read the same partition, because the ledger has only one head for it.

Cost:

- The judgement takes about 2 us per partition on a slow machine, half of it for creating the
  `Move`s: 2 ms for 1,000 partitions, 29 ms for 10,000 (`python -m benchmarks.guard`). Judging all
  partitions at once by comprehensions, or bypassing the constructor, made the judgement at most a
  fifth faster, and the code harder to read. Reading the plan and running the ledger's statements
  cost more.
"""
