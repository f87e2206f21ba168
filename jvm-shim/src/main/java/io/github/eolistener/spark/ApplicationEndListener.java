package io.github.eolistener.spark;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.slf4j.LoggerFactory;

/**
 * Makes {@code SparkContext.stop} wait until some work is done.
 *
 * <p>It has a listener queue of its own, and so a thread that nobody else waits for. Spark stops
 * the queues one after the other in the order of their creation, and waits for the thread of each.
 * This queue is created after that of the streaming events, whose thread has therefore ended before
 * Spark waits for this one.
 */
public final class ApplicationEndListener extends SparkListener {
  private static final String QUEUE = "eo-listener";

  private final Runnable work;

  private ApplicationEndListener(Runnable work) {
    super();
    this.work = work;
  }

  /** Runs {@code work} once, when the application ends. */
  public static void register(SparkContext context, Runnable work) {
    context.listenerBus().addToQueue(new ApplicationEndListener(work), QUEUE);
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd end) {
    try {
      work.run();
    } catch (Throwable error) {
      // A LinkageError on this thread would stop the SparkContext, which is stopping already.
      LoggerFactory.getLogger(ApplicationEndListener.class)
          .error("stopping the bridge failed", error);
    }
  }
}
