"""Tracks the durable offsets of each run of a query, and the groups that get them.

- `EventBuffer` stands between Spark's thread and the tracker's thread. It keeps the newest event of
  each run, which holds all offsets of the run. `SequenceGuard` judges every event before a newer
  one may replace it: otherwise a gap between two events would go unnoticed if the buffer keeps only
  the second. `RunGuard` judges losses later, and for that the buffer also keeps the oldest waiting
  events of each run.
- Only events show gaps between batches. A gap before a checkpoint's first batch shows only in the
  group: Spark's first event has no start offsets. So the tracker asks the query once where its
  checkpoint began (`Beginning`), and the committer compares that with its first snapshot.
- If a listener was added twice, Spark's bus calls it twice for each event. The buffer ignores an
  event that has the same batch and offsets as the previous event, and an event of a lower batch.
- `QueryTracker` learns the mode and the source options of a run once, finds the groups of its
  sources (`GroupRouting`), and offers their offsets to the committer. `QueryTracker` has no clock
  and no thread, so that the model can drive it; `TrackerThread` has both.
- The tracker routes each event once. The result keeps the sources apart (`RoutedOffsets`), because
  the guard may then withhold a source (`RunGuard`). The tracker combines the offsets of several
  sources only when it offers them, so that a withheld source does not hold up another source of the
  same partition.
- The tracker also asks the query itself for its durable position (`QueryReader`): until the query
  has restored its checkpoint (the catch-up), at the query's end, and a minute after its last event,
  since Spark drops events when its bus is full. If the query sends no events, or its events may be
  ahead of the checkpoint, the tracker asks every few seconds. It also asks each time all offsets
  must be committed again.
- A position that is ahead of the newest event waits for the event of its batch, so that the guard
  sees the event first. The batch id of a position may be too low, so the tracker compares offsets.
- Whenever the tracker asks for a run's position, it also asks whether the run has ended, because
  `spark.stop()` ends Spark's bus before its queries. A run that has ended stops counting for shared
  partitions at once. The tracker forgets the run a minute later, since its last events may still
  arrive.
- Events may come late. The tracker keeps an offered position until an event has reached it. It
  judges earlier events, but does not offer their offsets: the commit would be refused, or the group
  would go back. `RunOrder` knows the newest run of each query and the runs that have ended. Only
  the start of a run, or an event whose batch is above the batches of the newest run, makes another
  run the newest.
- If several runs share a partition of a group, the lowest of their offsets counts
  (`SharedPartitions`). The same holds within one event: if a query uses a stream twice, Spark sees
  either one source (a union of the stream with itself), or two sources on the same partitions (a
  join of two aliases).
- The tracker reads the options when the first batch has ended, never at the start of the query,
  because its sources do not exist yet then. `QueryReader` holds a reference to the query from its
  start, so that it can still ask a query that ends at once.
"""
