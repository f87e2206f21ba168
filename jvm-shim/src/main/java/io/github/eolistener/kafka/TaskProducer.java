package io.github.eolistener.kafka;

import io.github.eolistener.protocol.RefusedException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * A task's producer.
 *
 * <p>It does not throw what Kafka answers: the first failure is kept, and nothing is sent after it.
 * For one thread.
 */
public final class TaskProducer implements AutoCloseable {
  private final KafkaProducer<byte[], byte[]> producer;
  private final AtomicReference<Exception> failure = new AtomicReference<>();
  private final Map<TopicPartition, long[]> sent = new HashMap<>();
  private boolean hasTooLarge;

  /** Opens it; the name is that of the client, and must be another one for each. */
  public TaskProducer(TaskProducers how, String name) {
    producer = how.open(name);
  }

  /** The failure of opening a producer, as {@link #failure} gives it. */
  public static Map<String, String> refused(KafkaException thrown) {
    return described(thrown);
  }

  /** Whether nothing has failed yet, and no record was too large. */
  public boolean sends() {
    return failure.get() == null && !hasTooLarge;
  }

  /** Whether the last record was larger than this client sends; a broker's refusal is a failure. */
  public boolean hasTooLarge() {
    return hasTooLarge;
  }

  /** Sends a record, sooner or later; the headers may be null. */
  public void send(TopicPartition target, byte[] key, byte[] value, RecordHeaders headers) {
    Thread own = Thread.currentThread();
    try {
      producer.send(
          new ProducerRecord<>(target.topic(), target.partition(), key, value, headers),
          (written, error) -> {
            // The client's own answer comes at once; that of a broker on the client's thread.
            if (error instanceof RecordTooLargeException && Thread.currentThread() == own) {
              hasTooLarge = true;
            } else if (error != null) {
              fail(error);
            }
          });
      if (!hasTooLarge) {
        sent.computeIfAbsent(target, first -> new long[1])[0]++;
      }
    } catch (InterruptException killed) {
      throw killed;
    } catch (KafkaException | IllegalStateException refused) { // the latter where it was closed
      fail(refused);
    }
  }

  /**
   * Once, though all that is queued then fails too. Where a broker has answered, this is the
   * client's thread, which sends nothing that is queued any more.
   */
  private void fail(Exception error) {
    if (failure.compareAndSet(null, error)) {
      producer.close(Duration.ZERO);
    }
  }

  /** Waits until every record is acknowledged, or one has failed. */
  public void flush() {
    producer.flush();
  }

  /** {@code {"code","cause"}} of what has failed first; empty where nothing has. */
  public Optional<Map<String, String>> failure() {
    return Optional.ofNullable(failure.get()).map(TaskProducer::described);
  }

  /** How many records were sent to each partition. */
  public Map<TopicPartition, Long> sent() {
    Map<TopicPartition, Long> counts = new HashMap<>();
    sent.forEach((target, count) -> counts.put(target, count[0]));
    return counts;
  }

  /** Lets go of it at once: any other close would abort a transaction, that of all tasks. */
  @Override
  public void close() {
    producer.close(Duration.ZERO);
  }

  /** The answer of a broker goes before what the client says of its state after it. */
  private static Map<String, String> described(Exception thrown) {
    Exception error = thrown;
    for (Throwable one = thrown; one != null; one = one.getCause()) {
      if (one instanceof ApiException) {
        error = (ApiException) one;
      }
    }
    try {
      return KafkaError.of(error).texts();
    } catch (RefusedException other) { // librdkafka's name for what has no name
      return Map.of("code", "_FAIL", "cause", other.getMessage());
    }
  }
}
