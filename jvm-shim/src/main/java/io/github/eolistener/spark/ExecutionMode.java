package io.github.eolistener.spark;

/** How a query makes its progress durable; the names are those of Python's QueryMode. */
public enum ExecutionMode {
  MICRO_BATCH,
  ASYNC_PROGRESS,
  CONTINUOUS,
  REAL_TIME;

  /**
   * The mode of a StreamExecution, by the simple names of its class and its trigger: both moved to
   * other packages in Spark 4.1. A vendor's subclass counts as the class that it extends.
   */
  public static ExecutionMode of(SparkObject execution) {
    for (Class<?> type = execution.get().getClass(); type != null; type = type.getSuperclass()) {
      switch (type.getSimpleName()) {
        case "AsyncProgressTrackingMicroBatchExecution":
          return ASYNC_PROGRESS;
        case "ContinuousExecution":
          return CONTINUOUS;
        case "MicroBatchExecution":
          return isRealTime(execution) ? REAL_TIME : MICRO_BATCH;
        default:
      }
    }
    throw new IllegalStateException(
        "the class of the query is not supported: " + execution.className());
  }

  private static boolean isRealTime(SparkObject execution) {
    return execution
        .tryCall("trigger")
        .map(trigger -> trigger.get().getClass().getSimpleName().equals("RealTimeTrigger"))
        .orElse(false);
  }
}
