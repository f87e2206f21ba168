package io.github.eolistener.events;

import io.github.eolistener.requests.QueryAnswers;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.UUID;

/**
 * One run of a query, and what the bridge has still to be sent of it. Guarded by its {@link
 * EventQueue}, except for the ids and {@code answers}.
 */
public final class QueryRun {
  public final String runId;
  public final QueryAnswers answers = new QueryAnswers();

  final UUID queryId;
  final String name;

  final Deque<ProgressEvent> pending = new ArrayDeque<>();
  ProgressEvent newest;
  boolean idle;
  boolean ended;
  long endedAt;
  boolean startSent;
  boolean endSent;
  long notBefore;

  public QueryRun(UUID queryId, UUID runId, String name) {
    this.queryId = queryId;
    this.runId = runId.toString();
    this.name = name;
  }

  /** Has everything that is still known sent again: the newest event holds all offsets. */
  void resend() {
    startSent = false;
    endSent = false;
    if (pending.isEmpty() && newest != null) {
      pending.add(newest);
    }
  }
}
