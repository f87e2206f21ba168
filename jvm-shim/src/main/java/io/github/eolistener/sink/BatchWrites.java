package io.github.eolistener.sink;

import io.github.eolistener.kafka.TaskProducers;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.RefusedException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The batches that are being written, by a name that Python chose. All that a plan shows of a batch
 * is this name.
 */
public final class BatchWrites {
  private static final Map<String, OrderedBatchWrite> OPEN = new ConcurrentHashMap<>();

  private BatchWrites() {}

  /**
   * {@code {"batch","tasks","topics":[[topic, its number of partitions]]}}, and what {@link
   * TaskProducers} takes: remembers how the rows of a batch are to be written.
   */
  public static Map<String, Object> open(CallArguments arguments) {
    OPEN.put(arguments.text("batch"), new OrderedBatchWrite(arguments));
    return Map.of();
  }

  /** {@code {"batch","identities"}}: some rows that are not to be sent, one a line. */
  public static Map<String, Object> leaveOut(CallArguments arguments) {
    find(arguments.text("batch")).leaveOut(arguments.text("identities"));
    return Map.of();
  }

  /**
   * {@code {"batch"}} gives {@code {"tasks","reports":[],"running"}}: how many tasks Spark has
   * planned, zero where it has not begun; what each has reported, if all have ended; and, without a
   * transaction, whether one still runs that may send.
   */
  public static Map<String, Object> reports(CallArguments arguments) {
    return find(arguments.text("batch")).reports();
  }

  /** {@code {"batch"}}: forgets it. */
  public static Map<String, Object> close(CallArguments arguments) {
    OrderedBatchWrite closed = OPEN.remove(arguments.text("batch"));
    if (closed != null) {
      closed.close();
    }
    return Map.of();
  }

  static OrderedBatchWrite find(String batch) {
    OrderedBatchWrite found = batch == null ? null : OPEN.get(batch);
    if (found == null) {
      throw new RefusedException("there is no batch of this name to be written: " + batch);
    }
    return found;
  }
}
