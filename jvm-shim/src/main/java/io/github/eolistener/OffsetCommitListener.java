package io.github.eolistener;

import io.github.eolistener.bridge.Bridge;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits the processed offsets of streaming queries to Kafka consumer groups, by configuration
 * alone: {@code spark.sql.streaming.streamingQueryListeners} names this class, {@code spark.eo.*}
 * are its settings.
 *
 * <p>It hands each event to the driver's one {@link Bridge} and returns. Spark creates an instance
 * for each session and for clones of sessions, and calls it on the query's own thread and on the
 * thread that all listeners share; a LinkageError would stop the SparkContext. So it throws
 * nothing, waits for nothing and holds no state.
 */
public final class OffsetCommitListener extends StreamingQueryListener {
  private static final long serialVersionUID = 1L;
  private static final AtomicBoolean REPORTED = new AtomicBoolean();

  private final SparkConf conf;

  /** For {@code addListener}: the settings are those of the first query's session. */
  public OffsetCommitListener() {
    this(null);
  }

  /** For Spark, which passes the driver's configuration. */
  public OffsetCommitListener(SparkConf conf) {
    super();
    this.conf = conf;
  }

  /**
   * Leaves a run to a listener that the program added itself, so that each batch is committed once.
   * That listener calls it once for each run that it sees.
   */
  public static void claim(String runId) {
    Bridge.claim(runId);
  }

  @Override
  public void onQueryStarted(QueryStartedEvent event) {
    contain(() -> Bridge.started(conf, event.id(), event.runId(), event.name()));
  }

  @Override
  public void onQueryProgress(QueryProgressEvent event) {
    contain(() -> Bridge.progressed(conf, event.progress()));
  }

  @Override
  public void onQueryIdle(QueryIdleEvent event) {
    contain(() -> Bridge.idle(event.runId().toString()));
  }

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {
    contain(() -> Bridge.ended(event.runId().toString()));
  }

  /** Lets no error reach Spark, not even a LinkageError; the first one is logged. */
  private static void contain(Runnable work) {
    try {
      work.run();
    } catch (Throwable error) {
      report(error);
    }
  }

  private static void report(Throwable error) {
    try {
      if (REPORTED.compareAndSet(false, true)) {
        Logger logger = LoggerFactory.getLogger(OffsetCommitListener.class);
        logger.error(
            "eo_listener could not process an event of Spark. The query keeps running, but its"
                + " offsets may not be committed. Further errors of this kind are not logged.",
            error);
      }
    } catch (Throwable worse) {
      // Not even a logger: there is nowhere to report it, and the query must keep running.
    }
  }
}
