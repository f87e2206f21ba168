package io.github.eolistener;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.KafkaFuture;

/** How long a call may take. */
final class Limit {
  private static final long GRACE_MS = 250; // that the Kafka client may be late with its own limit

  private final long end;

  Limit(int timeoutMs) {
    end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
  }

  /** Milliseconds to the end, at least one. */
  int leftMs() {
    return (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
  }

  /**
   * The result, waited for until the end and a little, since the client tells of its own limit.
   *
   * @throws TimeoutException when the client does not even do that
   */
  <T> T await(KafkaFuture<T> future)
      throws ExecutionException, TimeoutException, InterruptedException {
    return future.get(leftMs() + GRACE_MS, TimeUnit.MILLISECONDS);
  }
}
