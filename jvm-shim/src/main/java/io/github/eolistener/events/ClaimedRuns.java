package io.github.eolistener;

import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;

/** The runs that a listener of the program's own commits; the newest ten thousand of them. */
final class Claims {
  private static final int KEPT = 10_000;

  private final Set<String> runs = new LinkedHashSet<>();

  synchronized void add(String runId) {
    runs.add(runId);
    if (runs.size() > KEPT) {
      Iterator<String> oldest = runs.iterator();
      oldest.next();
      oldest.remove();
    }
  }

  synchronized boolean contains(String runId) {
    return runs.contains(runId);
  }
}
