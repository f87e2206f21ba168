package io.github.eolistener;

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
 * What Spark's threads leave for the bridge: bounded, in order for each run, and kept until the
 * bridge has dealt with it, so that another one can be told.
 *
 * <p>A run's events wait one by one, since Python judges each by the one before it. When too many
 * wait, the oldest of a run goes: the newest holds the whole of the offsets, and a missing one is
 * known by its batch. What is put in takes no time: events are made into JSON by who takes them.
 *
 * <p>Spark calls each listener that it was given, and may have been given two of us. Both are called
 * on one thread, one after the other, so an event that comes again comes at once.
 */
final class Mailbox {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final int RUNS_KEPT = 1_000;
  private static final int ENDED_KEPT = 100;

  // A bridge that runs has been told of an end by then, and has asked what it wants to know.
  private static final long ENDING = TimeUnit.MINUTES.toNanos(1);
  private static final int EVENTS_KEPT = 1_000;
  private static final int AT_A_TIME = 100;

  // A listener of the program's own claims a run after we hear of it, on the same thread.
  private static final long CLAIM_TIME = TimeUnit.SECONDS.toNanos(1);

  private final Map<String, Run> runs = new LinkedHashMap<>();
  private final Set<Run> untold = new LinkedHashSet<>();
  private final Claims claims;
  private final LongSupplier nanoTime;
  private int events;
  private int telling;
  private boolean woken;
  private boolean hurried;
  private boolean closed;
  private boolean twiceSaid;

  /** {@code claims} says which runs are none of ours. */
  Mailbox(Claims claims) {
    this(claims, System::nanoTime);
  }

  Mailbox(Claims claims, LongSupplier nanoTime) {
    this.claims = claims;
    this.nanoTime = nanoTime;
  }

  /** A run has begun. */
  synchronized void started(Run run) {
    if (knows(run.runId)) {
      return;
    }
    run.notBefore = nanoTime.getAsLong() + CLAIM_TIME;
    runs.put(run.runId, run);
    if (runs.size() > RUNS_KEPT) {
      drop(leastNeeded());
    }
    untold.add(run);
    wake();
  }

  /** Whether the start of a run was put in, or is of no interest. */
  synchronized boolean knows(String runId) {
    return closed || runs.containsKey(runId) || claims.contains(runId);
  }

  /** A batch has ended. */
  synchronized void progressed(String runId, Event event) {
    Run run = runs.get(runId);
    if (run == null) {
      return;
    }
    if (run.newest != null && run.newest.isSameAs(event)) {
      sayTwice();
      return;
    }
    if (events >= EVENTS_KEPT && !run.waiting.isEmpty()) {
      run.waiting.removeFirst();
      events--;
    }
    run.waiting.addLast(event);
    run.newest = event;
    events++;
    untold.add(run);
    wake();
  }

  private void sayTwice() {
    if (!twiceSaid) {
      twiceSaid = true;
      LOGGER.warn(
          "the progress event of a batch came more than once: {} is named twice in"
              + " spark.sql.streaming.streamingQueryListeners, or the program adds it too. Each"
              + " event counts once, so nothing is wrong with the groups. To do: name it once",
          OffsetCommitListener.class.getName());
    }
  }

  /** A run has ended; the answer is that run, unless that was known or is of no interest. */
  synchronized Optional<Run> ended(String runId) {
    Run run = runs.get(runId);
    if (run == null || run.ended) {
      return Optional.empty();
    }
    run.ended = true;
    run.endedAt = nanoTime.getAsLong();
    untold.add(run);
    letEndedGo(run);
    wake();
    return Optional.of(run);
  }

  /**
   * Of those that ended a while ago, which are kept for another bridge alone, a hundred stay. One
   * whose query has run again is not among them: the later run tells of all that it has reached.
   */
  private void letEndedGo(Run last) {
    Deque<Run> kept = new ArrayDeque<>();
    for (Run run : List.copyOf(runs.values())) {
      if (run.ended && last.endedAt - run.endedAt > ENDING) {
        if (last.newest != null && run.queryId.equals(last.queryId)) {
          drop(run);
        } else {
          kept.add(run);
        }
      }
    }
    while (kept.size() > ENDED_KEPT) {
      drop(kept.remove());
    }
  }

  /** Leaves a run to who claimed it; says whether the bridge has been told of it already. */
  synchronized boolean leave(String runId) {
    Run run = runs.get(runId);
    if (run == null) {
      return false;
    }
    drop(run);
    return run.startTold;
  }

  /** The run of this id; null when it is not, or no longer, of interest. */
  synchronized Run run(String runId) {
    return runs.get(runId);
  }

  /** Lets go of a run: the bridge has dealt with all of it. */
  synchronized void forget(String runId) {
    Run run = runs.get(runId);
    if (run != null) {
      drop(run);
    }
  }

  /** Lets go of everything, for good: there will be no bridge. */
  synchronized void close() {
    closed = true;
    List.copyOf(runs.values()).forEach(this::drop);
    wake();
  }

  /** Whether there is nothing that a bridge would be needed for. */
  synchronized boolean isEmpty() {
    return runs.isEmpty();
  }

  /**
   * Prepares for a new bridge, which has to be told everything; the answer is its key to {@link
   * #take}, so that the one before it gets nothing any more.
   */
  synchronized int tellAgain() {
    untold.clear();
    for (Run run : runs.values()) {
      events -= run.waiting.size();
      run.tellAgain();
      events += run.waiting.size();
      untold.add(run);
    }
    return ++telling;
  }

  /** Waits for nothing any more: the application ends. */
  synchronized void hurry() {
    hurried = true;
    wake();
  }

  /** Has {@link #take} return at once. */
  synchronized void wake() {
    woken = true;
    notifyAll();
  }

  /** Waits until there is a run, or until woken. */
  synchronized void awaitRun() throws InterruptedException {
    while (runs.isEmpty() && !hurried && !closed) {
      wait();
    }
  }

  /**
   * Takes out what is to be told next, each a line in the making; after {@code millis} or when
   * woken there may be nothing.
   */
  synchronized List<Supplier<String>> take(int key, long millis) throws InterruptedException {
    List<Supplier<String>> lines = ready(key);
    if (lines.isEmpty()) {
      pause(millis);
      lines = ready(key);
    }
    return lines;
  }

  /** Waits until woken, or for {@code millis}. */
  synchronized void pause(long millis) throws InterruptedException {
    if (!woken) {
      wait(millis);
    }
    woken = false;
  }

  private List<Supplier<String>> ready(int key) {
    List<Supplier<String>> lines = new ArrayList<>();
    if (key != telling) {
      return lines;
    }
    long now = nanoTime.getAsLong();
    Iterator<Run> next = untold.iterator();
    while (next.hasNext() && lines.size() < AT_A_TIME) {
      Run run = next.next();
      boolean early = !run.startTold && run.waiting.isEmpty() && !run.ended && !hurried;
      if (early && run.notBefore - now > 0) {
        continue;
      }
      tell(run, lines);
      next.remove();
    }
    return lines;
  }

  private void tell(Run run, List<Supplier<String>> lines) {
    if (!run.startTold) {
      run.startTold = true;
      lines.add(() -> Message.started(run));
    }
    events -= run.waiting.size();
    for (Event event : run.waiting) {
      lines.add(() -> Message.progress(event.json.get()));
    }
    run.waiting.clear();
    if (run.ended && !run.endTold) {
      run.endTold = true;
      lines.add(() -> Message.ended(run.runId));
    }
  }

  private Run leastNeeded() {
    for (Run run : runs.values()) {
      if (run.ended) {
        return run;
      }
    }
    return runs.values().iterator().next();
  }

  private void drop(Run run) {
    runs.remove(run.runId);
    untold.remove(run);
    events -= run.waiting.size();
    run.waiting.clear();
    run.facts.release();
  }
}
