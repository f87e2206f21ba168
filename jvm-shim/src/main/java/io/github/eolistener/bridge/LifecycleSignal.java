package io.github.eolistener;

import java.util.concurrent.TimeUnit;

/** What the driver wants of its bridge: to go on, to be renewed, or to end by a certain time. */
final class Orders {
  private Long endAt;
  private boolean renewal;

  /** The application ends, and waits until then; only the first word counts. */
  synchronized void end(long atNanos) {
    endAt = endAt == null ? Long.valueOf(atNanos) : endAt;
    notifyAll();
  }

  /** This bridge has to end in good order, and another to know only the runs that are left. */
  synchronized void renew() {
    renewal = true;
    notifyAll();
  }

  synchronized boolean isEnd() {
    return endAt != null;
  }

  /** Milliseconds until the end, or very many. */
  synchronized long left() {
    return endAt == null
        ? Long.MAX_VALUE
        : TimeUnit.NANOSECONDS.toMillis(endAt - System.nanoTime());
  }

  /** By when a bridge that can be told has to end; null when it may go on. Takes a renewal out. */
  synchronized Long take(long flushMillis) {
    if (endAt == null && !renewal) {
      return null;
    }
    renewal = false;
    return endAt != null ? endAt : System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(flushMillis);
  }

  /** Waits, for an order at most; for at most {@code millis}. */
  synchronized void await(long millis) throws InterruptedException {
    if (millis > 0) {
      wait(millis);
    }
  }

  /** Has who waits look up. */
  synchronized void wake() {
    notifyAll();
  }
}
