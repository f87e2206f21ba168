package io.github.eolistener.bridge;

import java.util.concurrent.TimeUnit;

/** What the driver requests of its bridge: to restart, or to stop by a deadline. */
final class LifecycleSignal {
  private Long stopDeadline;
  private boolean restart;

  /** The application ends, and waits until {@code deadlineNanos}; only the first call counts. */
  synchronized void requestStop(long deadlineNanos) {
    stopDeadline = stopDeadline == null ? Long.valueOf(deadlineNanos) : stopDeadline;
    notifyAll();
  }

  /** The process must stop gracefully and be replaced. */
  synchronized void requestRestart() {
    restart = true;
    notifyAll();
  }

  synchronized boolean isStopRequested() {
    return stopDeadline != null;
  }

  /** Milliseconds until the deadline; {@code Long.MAX_VALUE} without one. */
  synchronized long millisLeft() {
    return stopDeadline == null
        ? Long.MAX_VALUE
        : TimeUnit.NANOSECONDS.toMillis(stopDeadline - System.nanoTime());
  }

  /**
   * By when a process that is ready must stop; null when nothing is requested. Clears a requested
   * restart.
   */
  synchronized Long takeDeadline(long flushMillis) {
    if (stopDeadline == null && !restart) {
      return null;
    }
    restart = false;
    return stopDeadline != null
        ? stopDeadline
        : System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(flushMillis);
  }

  /** Waits for a request or a {@link #wake}, at most {@code millis}. */
  synchronized void await(long millis) throws InterruptedException {
    if (millis > 0) {
      wait(millis);
    }
  }

  /** Ends a wait. */
  synchronized void wake() {
    notifyAll();
  }
}
