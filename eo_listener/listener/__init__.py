"""The listener that users add to Spark, and its settings.

`CommitService` wires the tracker's thread, the committer, the metrics and the check at the start;
`OffsetCommitListener` and the bridge both use it.

- The listener is held by its module until it is closed. `addListener(OffsetCommitListener())`
  leaves no other reference, and Python would collect it before the end of the program could flush
  it.
- `awaitTermination()` and `processAllAvailable()` return before the last event is delivered. So at
  exit the listener first waits for Spark's bus to be empty, while the JVM still lives.
- `_jlistener` is pyspark's own hook: what it returns is registered in the JVM. Ours makes one call
  per event, pyspark's about 80.
"""
