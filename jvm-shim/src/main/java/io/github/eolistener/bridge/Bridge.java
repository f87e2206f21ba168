package io.github.eolistener.bridge;

import io.github.eolistener.events.ClaimedRuns;
import io.github.eolistener.events.EventQueue;
import io.github.eolistener.events.ProgressEvent;
import io.github.eolistener.events.QueryRun;
import io.github.eolistener.spark.ApplicationEndListener;
import io.github.eolistener.spark.RunningQueries;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/**
 * The driver's one connection to Python: the process {@code python -m eo_listener.bridge}, started
 * for the first query, stopped with the SparkContext.
 *
 * <p>The public methods are called on Spark's threads and return at once.
 */
public final class Bridge {
  private static final long LAST_EVENTS_MS = TimeUnit.SECONDS.toMillis(5);
  private static final ClaimedRuns CLAIMS = new ClaimedRuns();

  private static volatile Bridge current;

  private final EventQueue queue;
  private final BridgeSettings settings;
  private final RequestHandler requests;
  private final Supervisor supervisor;
  private volatile Thread eventThread;

  private Bridge(BridgeSettings settings) {
    this.settings = settings;
    this.queue = new EventQueue(CLAIMS);
    this.requests = new RequestHandler(queue);
    this.supervisor = new Supervisor(settings, queue, requests);
  }

  /** A run has started: called on the query's own thread, when Spark already lists the query. */
  public static void started(SparkConf conf, UUID queryId, UUID runId, String name) {
    QueryRun run = new QueryRun(queryId, runId, name);
    SparkSession session = RunningQueries.find(queryId, run.runId, run.answers::attach);
    open(conf, session).queue.started(run);
  }

  /** A batch has completed. Its run may have started before the listener was added. */
  public static void progressed(SparkConf conf, StreamingQueryProgress progress) {
    Bridge bridge = current;
    String runId = progress.runId().toString();
    if (bridge == null || !bridge.queue.knows(runId)) {
      started(conf, progress.id(), progress.runId(), progress.name());
      bridge = current;
    }
    if (bridge != null) {
      bridge.eventThread = Thread.currentThread();
      bridge.queue.progressed(runId, ProgressEvent.of(progress));
    }
  }

  /** A run had nothing to do. */
  public static void idle(String runId) {
    Bridge bridge = current;
    if (bridge != null) {
      bridge.queue.idle(runId);
    }
  }

  /** A run has ended. */
  public static void ended(String runId) {
    Bridge bridge = current;
    if (bridge != null) {
      bridge.eventThread = Thread.currentThread();
      bridge.queue.ended(runId).ifPresent(bridge.requests::runEnded);
    }
  }

  /** Another listener commits this run. */
  public static void claim(String runId) {
    CLAIMS.add(runId);
    Bridge bridge = current;
    if (bridge != null && bridge.queue.release(runId)) {
      bridge.supervisor.restart();
    }
  }

  /** Creates a daemon thread that inherits nothing from the thread that creates it. */
  static Thread thread(String name, Runnable work) {
    Thread thread = new Thread(null, work, name, 0, false);
    thread.setDaemon(true);
    // Kafka's clients load classes through it. This loader has Spark's connector, which was given
    // to Spark in the same way as this jar.
    thread.setContextClassLoader(Bridge.class.getClassLoader());
    return thread;
  }

  private static synchronized Bridge open(SparkConf conf, SparkSession session) {
    if (current == null) {
      SparkContext context = session == null ? null : session.sparkContext();
      boolean unset = conf == null && context != null;
      Bridge bridge = new Bridge(BridgeSettings.of(unset ? context.getConf() : conf));
      current = bridge;
      bridge.supervisor.start();
      if (context != null) {
        ApplicationEndListener.register(context, bridge::stop);
      }
    }
    return current;
  }

  /** Commits what is outstanding and stops, within the time that the settings allow. */
  private void stop() {
    long millis = settings.flushMillis();
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    try {
      Thread events = eventThread;
      if (events != null) {
        // Spark ends this thread after the end of the application, when all events are delivered.
        events.join(Math.min(LAST_EVENTS_MS, millis / 2 + 1));
      }
      supervisor.stop(deadline);
    } catch (InterruptedException ignored) {
      // Whoever interrupts the stop does not want to wait for it.
    }
    synchronized (Bridge.class) {
      if (current == this) {
        current = null;
      }
    }
  }
}
