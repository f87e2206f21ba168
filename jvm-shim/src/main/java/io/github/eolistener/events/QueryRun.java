package io.github.eolistener;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.UUID;

/**
 * One run of a query, and what the bridge has still to be told of it. Guarded by its mailbox, but
 * for {@code facts}.
 */
final class Run {
  final UUID queryId;
  final String runId;
  final String name;

  final QueryFacts facts = new QueryFacts();
  final Deque<Event> waiting = new ArrayDeque<>();
  Event newest;
  boolean ended;
  long endedAt;
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
