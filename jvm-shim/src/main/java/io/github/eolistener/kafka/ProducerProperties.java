package io.github.eolistener.kafka;

import io.github.eolistener.spark.DelegationTokens;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.producer.ProducerConfig;

/** The properties of a task's producer: the user's, overridden where it must be so. */
final class ProducerProperties {
  /** These override the user's. */
  private static final Map<String, String> OVERRIDES =
      Map.of(
          "acks", "all",
          "enable.idempotence", "true",
          // KIP-714: the client's own metrics would be sent to the broker.
          "enable.metrics.push", "false");

  private ProducerProperties() {}

  static Map<String, Object> of(
      String clientId, Optional<String> transactionalId, Map<String, String> properties) {
    Set<String> known = new HashSet<>(ProducerConfig.configNames());
    Map<String, Object> all = new HashMap<>(DelegationTokens.withToken(properties));
    OVERRIDES.forEach(
        (name, value) -> {
          if (known.contains(name)) { // not all exist in the oldest kafka-clients of Spark
            all.put(name, value);
          }
        });
    transactionalId.ifPresent(id -> all.put("transactional.id", id));
    all.put("client.id", clientId); // unique, since MBeans are named after it
    return all;
  }
}
