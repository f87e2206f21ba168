"""Tracks the durable offsets of each query run, and the groups that get them.

- `EventBuffer` stands between Spark's thread and the tracker's. It keeps the newest event of each
  run, which holds all offsets. Every event is judged (`SequenceGuard`) before it may be replaced:
  otherwise a gap between two events would go unnoticed if only the second is kept. `RunGuard`
  judges losses later: for that the buffer also keeps the first events before the newest.
- If a listener was added twice, Spark calls it twice for each event, because Spark's bus keeps
  both. The buffer leaves out an event with the batch and the offsets of the previous event, and an
  event of a lower batch.
- `QueryTracker` learns the mode and the source options of a run once, finds the groups of its
  sources (`GroupRouting`), and offers their offsets to the committer. It has no clock and no
  thread, so the model can drive it; `TrackerThread` has both.
- An event is routed once. The result keeps the sources apart (`RoutedOffsets`), because the guard
  may then withhold one of them (`RunGuard`): offsets of several sources are combined only when they
  are offered, so that a withheld source does not hold up another source of the same partition.
- The tracker also asks the query itself for its durable position (`QueryReader`): until it has
  restored its checkpoint (the catch-up), at its end, a minute after its last event (Spark drops
  events when its bus is full), every few seconds if events do not count or do not come, and each
  time all offsets are to be committed again.
- A position that is ahead of the newest event waits for the event of its batch, so that the guard
  sees the event first. The batch id of a position may be too low, so offsets are compared.
- Whenever the tracker asks for a run's position, it also asks if the run has ended, because
  `spark.stop()` ends Spark's bus before its queries. A run that has ended stops counting for
  shared partitions at once. It is forgotten a minute later, since its last events may still be on
  their way.
- Events may come late. A position that was offered is kept until an event has reached it. Earlier
  events are judged but not offered: the commit would be refused, or the group would go back.
  `RunOrder` knows the newest run of each query and the runs that have ended. Only a start, or an
  event of a batch above those of the newest run, makes another run the newest.
- If several runs share a partition of a group, the lowest of their offsets counts
  (`SharedPartitions`). The same holds within one event: one stream used twice is one source for
  Spark (a union with itself), or two sources on the same partitions (a join of two aliases).
- The tracker reads options when the first batch has ended, never at the start of the query: its
  sources do not exist yet then. `QueryReader` holds the query from its start, so that a query that
  ends at once can still be asked.
"""
