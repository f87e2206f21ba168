package io.github.eolistener;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.slf4j.LoggerFactory;

/**
 * Holds the end of a SparkContext up until something is done.
 *
 * <p>It has a queue of its own, and so a thread that nobody else waits for. Spark ends the queues
 * one after the other in the order in which they were made, and waits for the thread of each; ours
 * is made after that of the streaming events, whose thread has therefore ended before ours is
 * waited for.
 */
final class ApplicationEnd extends SparkListener {
  private static final String QUEUE = "eo-listener";

  private final Runnable work;

  private ApplicationEnd(Runnable work) {
    super();
    this.work = work;
  }

  static void await(SparkContext context, Runnable work) {
    context.listenerBus().addToQueue(new ApplicationEnd(work), QUEUE);
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd end) {
    try {
      work.run();
    } catch (Throwable error) {
      // On this thread an error of linking would stop the SparkContext, which stops already.
      LoggerFactory.getLogger(ApplicationEnd.class).error("the bridge could not be ended", error);
    }
  }
}
