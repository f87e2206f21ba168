package io.github.eolistener.spark;

import java.util.HashSet;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;

/**
 * The tasks of one job that run: of the one that the thread starts which calls {@link #begin}.
 *
 * <p>A job has ended before its tasks where it has failed or was cancelled, and where a later
 * attempt of a stage was done before the earlier one: Spark kills what is left, and does not wait.
 * Spark counts a task on an executor that it has lost as ended, though it may run on there.
 */
public final class RunningTasks extends SparkListener {
  private static final String TAG = "eo_listener.job";

  private final String tag = UUID.randomUUID().toString();
  private final Set<Integer> jobs = new HashSet<>();
  private final Set<Integer> stages = new HashSet<>();
  private final Set<Long> tasks = new HashSet<>();
  private SparkContext context;
  private boolean hasStarted;

  public RunningTasks() {
    super();
  }

  /** What this thread has Spark run from here on is the job. */
  public synchronized void begin() {
    context = SparkContext.getOrCreate();
    context.addSparkListener(this);
    context.setLocalProperty(TAG, tag);
  }

  /** What this thread has Spark run from here on is not. */
  public synchronized void end() {
    if (context != null && tag.equals(context.getLocalProperty(TAG))) {
      context.setLocalProperty(TAG, null);
    }
  }

  /** Whether the job, or a task of it, runs. Spark's events come a moment late. */
  public synchronized boolean any() {
    return context != null && !(hasStarted && jobs.isEmpty() && tasks.isEmpty());
  }

  /** Listens no more. */
  public synchronized void close() {
    end();
    if (context != null) {
      context.removeSparkListener(this);
      context = null;
    }
  }

  @Override
  public synchronized void onJobStart(SparkListenerJobStart event) {
    if (isOurs(event.properties())) {
      hasStarted = true;
      jobs.add(event.jobId());
    }
  }

  @Override
  public synchronized void onJobEnd(SparkListenerJobEnd event) {
    jobs.remove(event.jobId());
  }

  @Override
  public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
    if (isOurs(event.properties())) {
      stages.add(event.stageInfo().stageId());
    }
  }

  @Override
  public synchronized void onTaskStart(SparkListenerTaskStart event) {
    if (stages.contains(event.stageId())) {
      tasks.add(event.taskInfo().taskId());
    }
  }

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
    tasks.remove(event.taskInfo().taskId());
  }

  private boolean isOurs(Properties properties) {
    return properties != null && tag.equals(properties.getProperty(TAG));
  }
}
