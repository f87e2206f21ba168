package io.github.eolistener.bridge;

import io.github.eolistener.events.EventQueue;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps one bridge process running while there are runs to commit. It has a thread of its own, on
 * which it starts a new process when the last one has exited.
 */
final class Supervisor implements Runnable {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final int STABLE_CHECKS = 60; // a process that lived longer resets the backoff
  private static final long MIN_BACKOFF_MS = 100;
  private static final long INITIAL_BACKOFF_MS = 500;
  private static final long UNUSABLE_BACKOFF_MS = TimeUnit.MINUTES.toMillis(1);
  private static final long MAX_BACKOFF_MS = TimeUnit.MINUTES.toMillis(5);

  private final BridgeSettings settings;
  private final EventQueue queue;
  private final RequestHandler requests;
  private final LifecycleSignal signal = new LifecycleSignal();
  private final Thread thread = Bridge.thread("eo-listener-bridge", this);

  private volatile String lastError = "";
  private long backoffMs = INITIAL_BACKOFF_MS;
  private ExitReason.Kind lastExit;

  Supervisor(BridgeSettings settings, EventQueue queue, RequestHandler requests) {
    this.settings = settings;
    this.queue = queue;
    this.requests = requests;
  }

  void start() {
    thread.start();
  }

  /** Has the bridge commit what is outstanding and exit; returns soon after the deadline. */
  void stop(long deadlineNanos) throws InterruptedException {
    signal.requestStop(deadlineNanos);
    queue.flush();
    thread.join(Math.max(1, signal.millisLeft()) + TimeUnit.SECONDS.toMillis(1));
  }

  /** Stops this process gracefully and starts another, which is sent the remaining runs only. */
  void restart() {
    signal.requestRestart();
  }

  /** The last error that was logged; empty before the first. */
  String lastError() {
    return lastError;
  }

  @Override
  public void run() {
    try {
      queue.awaitRun();
      while (isNeeded()) {
        handle(runOnce());
        queue.awaitRun();
      }
    } catch (InterruptedException ended) {
      LOGGER.debug("the supervisor of the bridge was interrupted");
    } catch (Throwable error) {
      LOGGER.error(
          "eo_listener stops committing in this driver: an internal error. Queries keep running",
          error);
    } finally {
      queue.close();
      requests.close();
    }
  }

  /** After a stop was requested, one more process is started only if the last one had failed. */
  private boolean isNeeded() {
    if (lastExit == ExitReason.Kind.REJECTED) {
      return false;
    }
    boolean retriable = lastExit == null || lastExit == ExitReason.Kind.FAILED;
    return !signal.isStopRequested()
        || (retriable && !queue.isEmpty() && signal.millisLeft() > 0);
  }

  private ExitReason runOnce() throws InterruptedException {
    BridgeProcess process;
    try {
      process = BridgeProcess.start(settings.command(), settings.hello(), queue, requests);
    } catch (IOException missing) {
      return ExitReason.notInstalled(
          "no such program, or it is not executable (" + missing.getMessage() + ")");
    }
    BridgeWatchdog watchdog = new BridgeWatchdog(process, settings, signal);
    ExitReason reason = watchdog.awaitExit();
    if (watchdog.checks() > STABLE_CHECKS) {
      backoffMs = INITIAL_BACKOFF_MS;
    }
    return reason;
  }

  private void handle(ExitReason reason) throws InterruptedException {
    lastExit = reason.kind;
    switch (reason.kind) {
      case REQUESTED:
        if (!signal.isStopRequested()) {
          lastExit = null; // a restart
        }
        break;
      case FAILED:
        LOGGER.warn(
            "the bridge process has failed: {}. Queries keep running; another bridge is started",
            reason.cause);
        backOff(backoffMs);
        break;
      case UNUSABLE:
        logOnce(
            "eo_listener cannot run on " + settings.interpreter
                + ". Nothing is committed until it can; queries keep running. Cause: "
                + reason.cause + ". Fix: " + reason.fix);
        backoffMs = Math.max(backoffMs, UNUSABLE_BACKOFF_MS);
        backOff(backoffMs);
        break;
      default:
        logOnce(
            "eo_listener commits nothing in this driver; queries keep running. Cause: "
                + reason.cause + (reason.fix.isEmpty() ? "" : ". Fix: " + reason.fix));
        queue.close();
    }
  }

  /** Logs an error, unless it is the one that was logged last. */
  private void logOnce(String error) {
    if (error.equals(lastError)) {
      LOGGER.debug("{}", error);
    } else {
      lastError = error;
      LOGGER.error("{}", error);
    }
  }

  /** Waits before the next start and doubles the next wait; short once a stop was requested. */
  private void backOff(long millis) throws InterruptedException {
    backoffMs = Math.min(backoffMs * 2, MAX_BACKOFF_MS);
    signal.await(MIN_BACKOFF_MS);
    long began = System.nanoTime();
    long left = millis;
    while (!signal.isStopRequested() && left > 0) {
      signal.await(Math.min(left, MAX_BACKOFF_MS));
      left = millis - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    }
  }
}
