package io.github.eolistener.events;

import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;

/** The runs that a listener added by the program commits; the newest ten thousand of them. */
public final class ClaimedRuns {
  private static final int MAX_RUNS = 10_000;

  private final Set<String> runs = new LinkedHashSet<>();

  public synchronized void add(String runId) {
    runs.add(runId);
    if (runs.size() > MAX_RUNS) {
      Iterator<String> oldest = runs.iterator();
      oldest.next();
      oldest.remove();
    }
  }

  synchronized boolean contains(String runId) {
    return runs.contains(runId);
  }
}
