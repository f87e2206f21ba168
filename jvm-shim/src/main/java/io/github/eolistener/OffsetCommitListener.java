package io.github.eolistener;

import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits what queries have processed to Kafka consumer groups, with configuration alone: {@code
 * spark.sql.streaming.streamingQueryListeners} names this class, {@code spark.eo.*} are its
 * settings.
 *
 * <p>It hands events over to the driver's one {@link Bridge} and returns. Spark makes one for each
 * session and more for clones of it, calls it on the query's own thread and on the thread that all
 * listeners share, and would stop the SparkContext for a LinkageError: so nothing is thrown here,
 * nothing is waited for, and there is no state.
 */
public final class OffsetCommitListener extends StreamingQueryListener {
  private static final long serialVersionUID = 1L;
  private static final AtomicBoolean COMPLAINED = new AtomicBoolean();

  private final SparkConf conf;

  /** For {@code addListener}: the settings are those of the first query's session. */
  public OffsetCommitListener() {
    this(null);
  }

  /** For Spark, which gives the configuration of the driver. */
  public OffsetCommitListener(SparkConf conf) {
    super();
    this.conf = conf;
  }

  /**
   * Leaves a run to a listener of the program's own, so that it is committed once. To be called by
   * that listener, once for each run that it sees.
   */
  public static void claim(String runId) {
    Bridge.claim(runId);
  }

  @Override
  public void onQueryStarted(QueryStartedEvent event) {
    contained(
        () -> Bridge.started(conf, new Run(event.id(), event.runId(), event.name())));
  }

  @Override
  public void onQueryProgress(QueryProgressEvent event) {
    contained(() -> Bridge.progressed(conf, event.progress()));
  }

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {
    contained(() -> Bridge.ended(event.runId().toString()));
  }

  /** Keeps everything from Spark, errors of linking too; they are said once. */
  private static void contained(Runnable work) {
    try {
      work.run();
    } catch (Throwable error) {
      complain(error);
    }
  }

  private static void complain(Throwable error) {
    try {
      if (COMPLAINED.compareAndSet(false, true)) {
        Logger logger = LoggerFactory.getLogger(OffsetCommitListener.class);
        logger.error(
            "eo_listener could not take an event of Spark. The query runs on, but may not be"
                + " committed. This is said once.",
            error);
      }
    } catch (Throwable worse) {
      // Not even a logger: there is nobody left to tell, and the query must run on.
    }
  }
}
