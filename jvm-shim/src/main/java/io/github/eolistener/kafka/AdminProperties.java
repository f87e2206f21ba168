package io.github.eolistener;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;

/** What an Admin is given: the source's own properties, and over them what our promises need. */
final class AdminProperties {
  /** Where these stand, nobody else's word counts. */
  private static final Map<String, String> OURS =
      Map.of(
          // The Admin would send a commit again when its connection fails. Then two would be on
          // their way, and the first could land after one that is newer than both.
          "retries", "0",
          "request.timeout.ms", "5000",
          "default.api.timeout.ms", "5000",
          "socket.connection.setup.timeout.ms", "5000",
          "reconnect.backoff.ms", "100",
          // A group should catch up within seconds of the broker's return.
          "reconnect.backoff.max.ms", "2000",
          // Of the metrics of clients nobody asked to be told.
          "enable.metrics.push", "false");

  private AdminProperties() {}

  static Map<String, Object> of(String id, Map<String, String> properties) {
    Set<String> known = AdminClientConfig.configNames();
    Set<String> foreign = new HashSet<>(ConsumerConfig.configNames());
    foreign.removeAll(known); // deserializers and the like; what handlers read for themselves stays
    Map<String, Object> all = new HashMap<>(DelegationTokens.added(properties));
    all.keySet().removeAll(foreign);
    OURS.forEach(
        (name, value) -> {
          if (known.contains(name)) { // some are newer than the oldest kafka-clients of Spark
            all.put(name, value);
          }
        });
    all.put("client.id", "eo-listener-" + id); // one for each, or their MBeans would collide
    return all;
  }
}
