package io.github.eolistener.kafka;

/**
 * Where a row stands in the order of all rows: its task's number in the upper 31 bits, and its own
 * among those of the task in the lower 33, as Spark's {@code monotonically_increasing_id()} has it.
 */
public final class RowPlace {
  private static final int SHIFT = 33;

  private RowPlace() {}

  /** The place of a task's first row. */
  public static long first(int task) {
    return (long) task << SHIFT;
  }

  /** The number of the task of the row. */
  public static long task(long place) {
    return place >>> SHIFT;
  }

  /** The number of the row among those of its task. */
  static long number(long place) {
    return place & ((1L << SHIFT) - 1);
  }
}
