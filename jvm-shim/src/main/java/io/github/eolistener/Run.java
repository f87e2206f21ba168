package io.github.eolistener;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.UUID;
import java.util.function.Supplier;

/** One run of a query, and what the bridge has still to be told of it. Guarded by its mailbox. */
final class Run {
  final UUID queryId;
  final String runId;
  final String name;

  /** Spark's StreamExecution, which answers also after its end; null where it was not found. */
  volatile Object execution;

  /** Its events, each as JSON in the making. */
  final Deque<Supplier<String>> waiting = new ArrayDeque<>();
  Supplier<String> newest;
  boolean ended;
  boolean startTold;
  boolean endTold;
  long notBefore;

  Run(UUID queryId, UUID runId, String name) {
    this.queryId = queryId;
    this.runId = runId.toString();
    this.name = name;
  }

  /** Has everything told once more, as far as it is still known: the newest event holds it all. */
  void tellAgain() {
    startTold = false;
    endTold = false;
    if (waiting.isEmpty() && newest != null) {
      waiting.add(newest);
    }
  }
}
