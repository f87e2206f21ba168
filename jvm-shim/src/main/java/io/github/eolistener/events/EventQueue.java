package io.github.eolistener.events;

import io.github.eolistener.protocol.Message;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The events that Spark's threads put in and the bridge process is sent: bounded, in order for each
 * run. A run is kept until the bridge forgets it, so that a replacement process can be sent it too.
 *
 * <p>Every event of a run is kept, since Python judges each by the one before it. When too many
 * wait, the oldest event of the run is dropped: the newest holds all of its offsets, and a missing
 * event shows by its batch id. Putting an event in is cheap: it becomes JSON on the thread that
 * takes it.
 *
 * <p>Spark calls each listener that it was given, and may have been given two of ours. Both are
 * called on one thread, one after the other, so a repeated event follows its original at once.
 */
public final class EventQueue {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final int MAX_RUNS = 1_000;
  private static final int MAX_ENDED_RUNS = 100;

  // After this time a working bridge has received the end of a run and asked all it needs to know.
  private static final long ENDED_GRACE = TimeUnit.MINUTES.toNanos(1);
  private static final int MAX_EVENTS = 1_000;
  private static final int MAX_RUNS_PER_TAKE = 100;

  // A listener that the program added claims a run after our listener was called, on the same
  // thread.
  private static final long CLAIM_GRACE = TimeUnit.SECONDS.toNanos(1);

  private final Map<String, QueryRun> runs = new LinkedHashMap<>();
  private final Set<QueryRun> unsent = new LinkedHashSet<>();
  private final ClaimedRuns claims;
  private final LongSupplier nanoTime;
  private int events;
  private int generation;
  private boolean woken;
  private boolean flushing;
  private boolean closed;
  private boolean duplicateLogged;

  /** {@code claims}: the runs that another listener commits. */
  public EventQueue(ClaimedRuns claims) {
    this(claims, System::nanoTime);
  }

  EventQueue(ClaimedRuns claims, LongSupplier nanoTime) {
    this.claims = claims;
    this.nanoTime = nanoTime;
  }

  /** A run has started. */
  public synchronized void started(QueryRun run) {
    if (knows(run.runId)) {
      return;
    }
    run.notBefore = nanoTime.getAsLong() + CLAIM_GRACE;
    runs.put(run.runId, run);
    if (runs.size() > MAX_RUNS) {
      drop(leastNeeded());
    }
    unsent.add(run);
    wake();
  }

  /** Whether the start of a run was put in, or need not be. */
  public synchronized boolean knows(String runId) {
    return closed || runs.containsKey(runId) || claims.contains(runId);
  }

  /** A batch has completed. */
  public synchronized void progressed(String runId, ProgressEvent event) {
    QueryRun run = runs.get(runId);
    if (run == null) {
      return;
    }
    if (run.newest != null && run.newest.isSameAs(event)) {
      logDuplicate();
      return;
    }
    if (events >= MAX_EVENTS && !run.pending.isEmpty()) {
      run.pending.removeFirst();
      events--;
    }
    run.pending.addLast(event);
    run.newest = event;
    events++;
    unsent.add(run);
    wake();
  }

  private void logDuplicate() {
    if (!duplicateLogged) {
      duplicateLogged = true;
      LOGGER.warn(
          "the progress event of a batch came more than once. Each event counts once, so the groups"
              + " are right. Cause: io.github.eolistener.OffsetCommitListener is named twice in"
              + " spark.sql.streaming.streamingQueryListeners, or the program adds it too."
              + " Fix: name it once");
    }
  }

  /** A run had nothing to do; told once, however often it was put in before it is taken. */
  public synchronized void idle(String runId) {
    QueryRun run = runs.get(runId);
    if (run != null && !run.ended) {
      run.idle = true;
      unsent.add(run);
      wake();
    }
  }

  /** A run has ended. Returns that run, unless its end was known or need not be. */
  public synchronized Optional<QueryRun> ended(String runId) {
    QueryRun run = runs.get(runId);
    if (run == null || run.ended) {
      return Optional.empty();
    }
    run.ended = true;
    run.endedAt = nanoTime.getAsLong();
    unsent.add(run);
    dropEnded(run);
    wake();
    return Optional.of(run);
  }

  /**
   * Drops runs that ended longer than {@code ENDED_GRACE} before {@code last} and are kept for a
   * replacement process only: those of the same query, whose offsets {@code last} covers, and of
   * the others all but the newest hundred.
   */
  private void dropEnded(QueryRun last) {
    Deque<QueryRun> kept = new ArrayDeque<>();
    for (QueryRun run : List.copyOf(runs.values())) {
      if (run.ended && last.endedAt - run.endedAt > ENDED_GRACE) {
        if (last.newest != null && run.queryId.equals(last.queryId)) {
          drop(run);
        } else {
          kept.add(run);
        }
      }
    }
    while (kept.size() > MAX_ENDED_RUNS) {
      drop(kept.remove());
    }
  }

  /** Drops a run that another listener claimed; returns whether the bridge was already sent it. */
  public synchronized boolean release(String runId) {
    QueryRun run = runs.get(runId);
    if (run == null) {
      return false;
    }
    drop(run);
    return run.startSent;
  }

  /** The run of this id; null when it is not kept. */
  public synchronized QueryRun run(String runId) {
    return runs.get(runId);
  }

  /** Drops a run: the bridge has committed all of it. */
  public synchronized void forget(String runId) {
    QueryRun run = runs.get(runId);
    if (run != null) {
      drop(run);
    }
  }

  /** Drops everything and accepts nothing more: there will be no bridge. */
  public synchronized void close() {
    closed = true;
    List.copyOf(runs.values()).forEach(this::drop);
    wake();
  }

  /** Whether there is no run that needs a bridge. */
  public synchronized boolean isEmpty() {
    return runs.isEmpty();
  }

  /**
   * Marks everything as not sent, for a new process. Returns the generation to pass to {@link
   * #take}; the process before it gets nothing any more.
   */
  public synchronized int resendAll() {
    unsent.clear();
    for (QueryRun run : runs.values()) {
      events -= run.pending.size();
      run.resend();
      events += run.pending.size();
      unsent.add(run);
    }
    return ++generation;
  }

  /** Holds no event back any more: the application ends. */
  public synchronized void flush() {
    flushing = true;
    wake();
  }

  /** Makes {@link #take} return at once. */
  public synchronized void wake() {
    woken = true;
    notifyAll();
  }

  /** Waits until there is a run, or until {@link #flush} or {@link #close}. */
  public synchronized void awaitRun() throws InterruptedException {
    while (runs.isEmpty() && !flushing && !closed) {
      wait();
    }
  }

  /**
   * Takes what is to be sent next, each element one line that is rendered when asked for. Waits for
   * it at most {@code millis}; empty when there is none by then.
   */
  public synchronized List<Supplier<String>> take(int forGeneration, long millis)
      throws InterruptedException {
    List<Supplier<String>> lines = ready(forGeneration);
    if (lines.isEmpty()) {
      pause(millis);
      lines = ready(forGeneration);
    }
    return lines;
  }

  /** Waits for {@link #wake}, at most {@code millis}. */
  public synchronized void pause(long millis) throws InterruptedException {
    if (!woken) {
      wait(millis);
    }
    woken = false;
  }

  private List<Supplier<String>> ready(int forGeneration) {
    List<Supplier<String>> lines = new ArrayList<>();
    if (forGeneration != generation) {
      return lines;
    }
    long now = nanoTime.getAsLong();
    Iterator<QueryRun> next = unsent.iterator();
    while (next.hasNext() && lines.size() < MAX_RUNS_PER_TAKE) {
      QueryRun run = next.next();
      boolean startOnly = !run.startSent && run.pending.isEmpty() && !run.ended && !flushing;
      if (startOnly && run.notBefore - now > 0) {
        continue;
      }
      takeLines(run, lines);
      next.remove();
    }
    return lines;
  }

  private void takeLines(QueryRun run, List<Supplier<String>> lines) {
    if (!run.startSent) {
      run.startSent = true;
      lines.add(() -> Message.started(run.queryId, run.runId, run.name));
    }
    events -= run.pending.size();
    for (ProgressEvent event : run.pending) {
      lines.add(() -> Message.progress(event.json.get()));
    }
    run.pending.clear();
    if (run.idle) {
      run.idle = false;
      lines.add(() -> Message.idle(run.runId));
    }
    if (run.ended && !run.endSent) {
      run.endSent = true;
      lines.add(() -> Message.ended(run.runId));
    }
  }

  private QueryRun leastNeeded() {
    for (QueryRun run : runs.values()) {
      if (run.ended) {
        return run;
      }
    }
    return runs.values().iterator().next();
  }

  private void drop(QueryRun run) {
    runs.remove(run.runId);
    unsent.remove(run);
    events -= run.pending.size();
    run.pending.clear();
    run.answers.release();
  }
}
