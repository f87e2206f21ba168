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
 *
 * <p>Its listener bus drops events when it is full. Without those of a job this says too long that
 * it runs; which tasks run it does not have from there.
 */
public final class RunningTasks extends SparkListener {
  private static final String TAG = "eo_listener.job";

  private final String tag = UUID.randomUUID().toString();
  private final Set<Integer> jobs = new HashSet<>();
  private final Set<Integer> stages = new HashSet<>();
  private final Set<Long> tasks = new HashSet<>();
  private volatile SparkContext context;
  private boolean hasStarted;

  public RunningTasks() {
    super();
  }

  /** What this thread has Spark run from here on is the job. */
  public void begin(SparkContext runs) {
    runs.addSparkListener(this);
    runs.setLocalProperty(TAG, tag);
    context = runs;
  }

  /** What this thread has Spark run from here on is not. */
  public void end() {
    SparkContext runs = context;
    if (runs != null && tag.equals(runs.getLocalProperty(TAG))) {
      runs.setLocalProperty(TAG, null);
    }
  }

  /**
   * Whether the job, or a task of it, runs. Spark's events come a moment late; those of a context
   * that was stopped, which runs nothing more, do not come at all.
   */
  public synchronized boolean any() {
    SparkContext runs = context;
    return runs != null
        && !runs.isStopped()
        && !(hasStarted && jobs.isEmpty() && !hasTasks(runs));
  }

  /** The scheduler knows for certain; of another one than Spark's own only the events are known. */
  private boolean hasTasks(SparkContext runs) {
    return ScheduledTasks.of(runs)
        .map(scheduled -> scheduled.has(TAG, tag))
        .orElseGet(() -> !tasks.isEmpty());
  }

  /**
   * Listens no more. Without the lock that an event needs: a context that is stopped holds the one
   * that is needed here until the last event is over.
   */
  public void close() {
    end();
    SparkContext runs = context;
    context = null;
    if (runs != null) {
      runs.removeSparkListener(this);
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
