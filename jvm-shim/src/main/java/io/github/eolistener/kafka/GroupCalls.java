package io.github.eolistener;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Consumer groups through Spark's own kafka-clients, for what librdkafka cannot do: delegation
 * tokens, login and callback handlers of others.
 *
 * <p>{@code "client"} of the argument is a name that the caller chose for a set of {@code
 * "properties"} (Java's names, as the Spark source has them). All groups of one client share one
 * Admin, which is opened at the first call and lives until {@code groups.close}; properties that
 * come later are not looked at. Of one client the caller makes one call at a time, of at most
 * {@code "timeoutMs"}; what else the argument holds is said at {@link GroupCommit} and {@link
 * GroupLook}.
 *
 * <p>An error of Kafka is an answer, {@code {"error":{"code","cause"}}}; see {@link KafkaFailure}.
 */
final class Groups {
  private static final Map<String, GroupAdmin> CLIENTS = new ConcurrentHashMap<>();

  private Groups() {}

  static Map<String, Object> commit(Argument argument) {
    return asked(argument, new GroupCommit(argument));
  }

  static Map<String, Object> look(Argument argument) {
    return asked(argument, new GroupLook(argument));
  }

  /** {@code {"client"}}, null for all clients, gives {@code {"closed":number}}. */
  static Map<String, Object> close(Argument argument) {
    int closed = 0;
    for (String id : argument.find("client").map(Set::of).orElse(CLIENTS.keySet())) {
      closed += close(id) ? 1 : 0;
    }
    return Map.of("closed", closed);
  }

  /** Closes the client of that name; says whether there was one. */
  static boolean close(String id) {
    GroupAdmin client = CLIENTS.remove(id);
    if (client != null) {
      client.close();
    }
    return client != null;
  }

  private static Map<String, Object> asked(Argument argument, GroupAdmin.Question question) {
    int timeoutMs = argument.number("timeoutMs");
    return CLIENTS
        .computeIfAbsent(
            argument.text("client"), id -> new GroupAdmin(id, argument.texts("properties")))
        .ask(timeoutMs, question);
  }
}
