package io.github.eolistener;

import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/**
 * The driver's one way to Python: {@code python -m eo_listener.bridge}, started for the first
 * query, gone with the SparkContext.
 *
 * <p>The static methods are for Spark's threads, and return at once.
 */
final class Bridge {
  private static final long LAST_EVENTS = TimeUnit.SECONDS.toMillis(5);
  private static final Claims CLAIMS = new Claims();

  private static volatile Bridge current;

  private final Mailbox mailbox;
  private final Settings settings;
  private final Clerk clerk;
  private final Supervisor supervisor;
  private volatile Thread deliverer;

  private Bridge(Settings settings) {
    this.settings = settings;
    this.mailbox = new Mailbox(CLAIMS);
    this.clerk = new Clerk(mailbox);
    this.supervisor = new Supervisor(settings, mailbox, clerk);
  }

  /** A run has begun: on the query's own thread, while Spark already lists it. */
  static void started(SparkConf conf, Run run) {
    SparkSession session = LiveQueries.find(run);
    open(conf, session).mailbox.started(run);
  }

  /** A batch has ended. Its run may be older than the listener. */
  static void progressed(SparkConf conf, StreamingQueryProgress progress) {
    Bridge bridge = current;
    String runId = progress.runId().toString();
    if (bridge == null || !bridge.mailbox.knows(runId)) {
      started(conf, new Run(progress.id(), progress.runId(), progress.name()));
      bridge = current;
    }
    if (bridge != null) {
      bridge.deliverer = Thread.currentThread();
      bridge.mailbox.progressed(runId, Event.of(progress));
    }
  }

  /** A run has ended. */
  static void ended(String runId) {
    Bridge bridge = current;
    if (bridge != null) {
      bridge.deliverer = Thread.currentThread();
      bridge.mailbox.ended(runId).ifPresent(bridge.clerk::conclude);
    }
  }

  /** A run is committed by somebody else. */
  static void claim(String runId) {
    CLAIMS.add(runId);
    Bridge bridge = current;
    if (bridge != null && bridge.mailbox.leave(runId)) {
      bridge.supervisor.renew();
    }
  }

  /** A thread that keeps nothing alive, neither the JVM nor what its maker's thread holds. */
  static Thread thread(String name, Runnable work) {
    Thread thread = new Thread(null, work, name, 0, false);
    thread.setDaemon(true);
    // Where the jar came from, Spark's connector came from too: clients of Kafka look there.
    thread.setContextClassLoader(Bridge.class.getClassLoader());
    return thread;
  }

  private static synchronized Bridge open(SparkConf conf, SparkSession session) {
    if (current == null) {
      SparkContext context = session == null ? null : session.sparkContext();
      boolean unset = conf == null && context != null;
      Bridge bridge = new Bridge(Settings.of(unset ? context.getConf() : conf));
      current = bridge;
      bridge.supervisor.start();
      if (context != null) {
        ApplicationEnd.await(context, bridge::end);
      }
    }
    return current;
  }

  /** Commits what is left and ends, in the time that the settings give. */
  private void end() {
    long millis = settings.flushMillis();
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    try {
      Thread events = deliverer;
      if (events != null) {
        // Spark ends it after this application has ended, when all events are delivered.
        events.join(Math.min(LAST_EVENTS, millis / 2 + 1));
      }
      supervisor.end(deadline);
    } catch (InterruptedException hurried) {
      // Whoever interrupts the end does not want to wait for it.
    }
    synchronized (Bridge.class) {
      if (current == this) {
        current = null;
      }
    }
  }
}
