package io.github.eolistener.kafka;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.KafkaFuture;

/** The time by which a call must have ended. */
final class Deadline {
  private static final long GRACE_MS = 250; // by which the Kafka client may miss its own time-out

  private final long endNanos;

  Deadline(int timeoutMs) {
    endNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
  }

  /** Milliseconds left, at least one. */
  int leftMs() {
    return (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(endNanos - System.nanoTime()));
  }

  /**
   * Waits for the result until shortly after the deadline, since the client reports its own
   * time-out.
   *
   * @throws TimeoutException when the client does not
   */
  <T> T await(KafkaFuture<T> future)
      throws ExecutionException, TimeoutException, InterruptedException {
    return future.get(leftMs() + GRACE_MS, TimeUnit.MILLISECONDS);
  }
}
