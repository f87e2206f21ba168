package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The transaction that a batch is written in, as a task is told of it: whose it is, in which epoch,
 * and how to reach its cluster.
 *
 * <p>The properties hold passwords. They reach the executors with the task, as those of Spark's own
 * Kafka sink do, and are in no plan and in no text.
 */
public final class JoinedTransaction implements TaskProducers {
  private static final long serialVersionUID = 1L;

  private final HashMap<String, String> properties;
  private final String transactionalId;
  private final long producerId;
  private final int epoch;

  private JoinedTransaction(
      Map<String, String> properties, String transactionalId, long producerId, int epoch) {
    this.properties = new HashMap<>(properties);
    this.transactionalId = transactionalId;
    this.producerId = producerId;
    this.epoch = epoch;
  }

  /** {@code {"transactionalId","producerId","epoch","properties":{}}}. */
  public static JoinedTransaction of(CallArguments arguments) {
    return new JoinedTransaction(
        arguments.texts("properties"),
        arguments.text("transactionalId"),
        arguments.whole("producerId"),
        (int) arguments.whole("epoch"));
  }

  @Override
  public KafkaProducer<byte[], byte[]> open(String name) {
    ByteArraySerializer asIs = new ByteArraySerializer();
    KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(
            ProducerProperties.of(name, Optional.of(transactionalId), properties), asIs, asIs);
    boolean joined = false;
    try {
      TransactionJoin.join(producer, producerId, epoch);
      joined = true;
    } finally {
      if (!joined) {
        producer.close(Duration.ZERO);
      }
    }
    return producer;
  }

  @Override
  public String toString() {
    return "transaction " + transactionalId + " of producer " + producerId + ", epoch " + epoch;
  }
}
