package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Consumer groups through Spark's own kafka-clients, for what librdkafka does not support:
 * delegation tokens, and custom login and callback handlers.
 *
 * <p>The argument {@code "client"} is a name that the caller chose for a set of {@code
 * "properties"} (Java's names, as in the options of the Spark source). All groups of one client
 * share one Admin, which is opened by the first call and stays open until {@code groups.close}; the
 * properties of later calls are ignored. The caller makes one call of a client at a time, each of
 * at most {@code "timeoutMs"}. {@link GroupCommit} and {@link GroupSnapshot} describe their further
 * arguments.
 *
 * <p>An error of Kafka is an answer, {@code {"error":{"code","cause"}}}; see {@link KafkaError}.
 */
public final class GroupCalls {
  private static final Map<String, GroupAdmin> CLIENTS = new ConcurrentHashMap<>();

  private GroupCalls() {}

  public static Map<String, Object> commit(CallArguments arguments) {
    return run(arguments, new GroupCommit(arguments));
  }

  public static Map<String, Object> snapshot(CallArguments arguments) {
    return run(arguments, new GroupSnapshot(arguments));
  }

  /** {@code {"client"}}, null for all clients, gives {@code {"closed":number}}. */
  public static Map<String, Object> close(CallArguments arguments) {
    int closed = 0;
    for (String id : arguments.find("client").map(Set::of).orElse(CLIENTS.keySet())) {
      closed += close(id) ? 1 : 0;
    }
    return Map.of("closed", closed);
  }

  /** Closes the client of that name; returns whether there was one. */
  public static boolean close(String id) {
    GroupAdmin client = CLIENTS.remove(id);
    if (client != null) {
      client.close();
    }
    return client != null;
  }

  static Map<String, Object> run(
      CallArguments arguments, GroupAdmin.Operation operation) {
    int timeoutMs = arguments.number("timeoutMs");
    return CLIENTS
        .computeIfAbsent(
            arguments.text("client"), id -> new GroupAdmin(id, arguments.texts("properties")))
        .run(timeoutMs, operation);
  }
}
