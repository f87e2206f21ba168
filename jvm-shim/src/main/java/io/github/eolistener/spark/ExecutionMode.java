package io.github.eolistener;

/** How a query makes its progress durable; the names are those of Python's QueryMode. */
enum ExecutionMode {
  MICRO_BATCH,
  ASYNC_PROGRESS,
  CONTINUOUS,
  REAL_TIME;

  /**
   * Of a StreamExecution, by the simple names of its class and of its trigger: both moved to other
   * packages in Spark 4.1. A platform's own subclass counts as the class that it extends.
   */
  static ExecutionMode of(LiveObject execution) {
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
        execution.className() + " is no way of running a query that is known here");
  }

  private static boolean isRealTime(LiveObject execution) {
    return execution
        .find("trigger")
        .map(trigger -> trigger.get().getClass().getSimpleName().equals("RealTimeTrigger"))
        .orElse(false);
  }
}
