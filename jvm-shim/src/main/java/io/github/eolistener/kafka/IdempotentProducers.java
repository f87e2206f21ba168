package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers without a transaction: what they have sent stays. Their properties are in no text, as
 * those of {@link JoinedTransaction}.
 */
final class IdempotentProducers implements TaskProducers {
  private static final long serialVersionUID = 1L;

  private final HashMap<String, String> properties;

  private IdempotentProducers(Map<String, String> properties) {
    this.properties = new HashMap<>(properties);
  }

  /** {@code {"properties":{}}}. */
  static IdempotentProducers of(CallArguments arguments) {
    return new IdempotentProducers(arguments.texts("properties"));
  }

  @Override
  public KafkaProducer<byte[], byte[]> open(String name) {
    ByteArraySerializer asIs = new ByteArraySerializer();
    return new KafkaProducer<>(
        ProducerProperties.of(name, Optional.empty(), properties), asIs, asIs);
  }

  @Override
  public String toString() {
    return "no transaction";
  }
}
