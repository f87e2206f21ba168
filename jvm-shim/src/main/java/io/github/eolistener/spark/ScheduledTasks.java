package io.github.eolistener.spark;

import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.spark.SparkContext;

/**
 * The tasks that Spark's scheduler has launched, and not heard the end of: as it has them itself,
 * for its events may be dropped on their way. One on an executor that was lost is none of them.
 */
final class ScheduledTasks {
  private final Map<?, ?> launched;

  private ScheduledTasks(Map<?, ?> launched) {
    this.launched = launched;
  }

  /** Empty for a scheduler that is not Spark's own. */
  static Optional<ScheduledTasks> of(SparkContext context) {
    return new SparkObject(context)
        .tryCall("taskScheduler")
        .flatMap(scheduler -> scheduler.tryCall("taskIdToTaskSetManager"))
        .map(launched -> new ScheduledTasks((Map<?, ?>) launched.get()));
  }

  /** Whether one is of a job that was started with this local property. */
  boolean has(String property, String value) {
    return launched.values().stream()
        .map(manager -> new SparkObject(manager).call("taskSet").tryCall("properties"))
        .flatMap(Optional::stream)
        .anyMatch(found -> value.equals(((Properties) found.get()).getProperty(property)));
  }
}
