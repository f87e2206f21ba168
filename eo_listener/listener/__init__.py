"""The listener that users add to Spark, and its settings.

`CommitService` connects the tracker's thread, the committer, the metrics and the check at the
start; `OffsetCommitListener` and the bridge both use `CommitService`.

- The listener's module keeps a reference to each listener until the listener is closed. After
  `addListener(OffsetCommitListener())` there is no other reference, and Python would delete the
  listener before it could be flushed at the end of the program.
- `awaitTermination()` and `processAllAvailable()` return before the last event is delivered. So at
  exit the listener first waits until Spark's event bus is empty, while the JVM still runs.
- `_jlistener` is pyspark's own hook: pyspark registers its value in the JVM. eo_listener's object
  makes one call per event, and pyspark's object about 80 calls.
"""
