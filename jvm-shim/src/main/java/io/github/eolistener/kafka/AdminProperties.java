package io.github.eolistener.kafka;

import io.github.eolistener.spark.DelegationTokens;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** The properties of an Admin: those of a source or a sink, overridden where our guarantees need it. */
final class AdminProperties {
  /** These override the user's. */
  private static final Map<String, String> OVERRIDES =
      Map.of(
          // The Admin would repeat a commit whose connection failed. Then two would be in flight,
          // and the first could reach the group after one that is newer than both.
          "retries", "0",
          "request.timeout.ms", "5000",
          "default.api.timeout.ms", "5000",
          "socket.connection.setup.timeout.ms", "5000",
          "reconnect.backoff.ms", "100",
          // A group should catch up within seconds once the broker is back.
          "reconnect.backoff.max.ms", "2000",
          // KIP-714: the client's own metrics would be sent to the broker.
          "enable.metrics.push", "false");

  private AdminProperties() {}

  static Map<String, Object> of(String id, Map<String, String> properties) {
    Set<String> known = AdminClientConfig.configNames();
    Set<String> others = new HashSet<>(ConsumerConfig.configNames());
    others.addAll(ProducerConfig.configNames());
    others.removeAll(known); // deserializers etc.; what custom handlers read stays
    Map<String, Object> all = new HashMap<>(DelegationTokens.withToken(properties));
    all.keySet().removeAll(others);
    OVERRIDES.forEach(
        (name, value) -> {
          if (known.contains(name)) { // not all exist in the oldest kafka-clients of Spark
            all.put(name, value);
          }
        });
    all.put("client.id", "eo-listener-" + id); // unique, since MBeans are named after it
    return all;
  }
}
