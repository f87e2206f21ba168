package io.github.eolistener;

import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import javax.security.auth.login.LoginException;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;

/**
 * An error of Kafka or of its client: a name, and the likely cause in our own words.
 *
 * <p>The name is Kafka's ({@link Errors}), or where Kafka has none that of librdkafka, which Python
 * knows: {@code _SSL}, {@code _AUTHENTICATION}, {@code _RESOLVE}, {@code _INVALID_ARG}.
 * REQUEST_TIMED_OUT is a request of unknown outcome.
 */
final class KafkaFailure {
  private static final String NOT_NOW = "the broker cannot do it at this moment";

  private final String code;
  private final String cause;

  private KafkaFailure(String code, String cause) {
    this.code = code;
    this.cause = cause;
  }

  /**
   * What an error of the client means.
   *
   * @throws Refusal for one that is not Kafka's
   */
  static KafkaFailure of(Exception thrown) {
    Throwable error = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
    String classes = Failure.classes(error);
    if (find(error, SslAuthenticationException.class) != null) {
      return new KafkaFailure("_SSL", "the TLS handshake failed: " + classes);
    }
    if (find(error, AuthenticationException.class) != null
        || find(error, LoginException.class) != null) {
      return new KafkaFailure("_AUTHENTICATION", "the login failed: " + classes);
    }
    if (find(error, ConfigException.class) != null) {
      return ofSettings(find(error, ConfigException.class));
    }
    if (find(error, TimeoutException.class) != null) {
      return unanswered(silence(String.valueOf(error.getMessage())));
    }
    Errors known = Errors.forException(error);
    if (error instanceof ApiException) {
      return new KafkaFailure(known.name(), "Kafka's client has it as " + classes);
    }
    if (error == thrown && error instanceof KafkaException) {
      return new KafkaFailure("_INVALID_ARG", "Kafka's client cannot be opened: " + classes);
    }
    throw new Refusal("Kafka's client failed: " + classes);
  }

  static KafkaFailure unanswered(String cause) {
    return new KafkaFailure(Errors.REQUEST_TIMED_OUT.name(), cause);
  }

  String code() {
    return code;
  }

  /** Whether the broker answered that it will be able to later on; then nothing is out. */
  boolean isPassing() {
    return cause.equals(NOT_NOW);
  }

  boolean isOfCredentials() {
    return code.equals("_AUTHENTICATION") || code.equals("_SSL");
  }

  boolean isOfNoTopic() {
    return code.equals(Errors.UNKNOWN_TOPIC_OR_PARTITION.name());
  }

  /** Whether the broker refuses this topic, which says nothing of others. */
  boolean isOfOneTopic() {
    return code.equals(Errors.TOPIC_AUTHORIZATION_FAILED.name())
        || code.equals(Errors.INVALID_TOPIC_EXCEPTION.name());
  }

  Map<String, Object> answer() {
    return Map.of("error", Map.of("code", code, "cause", cause));
  }

  /** Its message quotes the value, so only those names of settings are told that stand in it. */
  private static KafkaFailure ofSettings(ConfigException error) {
    String message = String.valueOf(error.getMessage());
    if (message.startsWith("No resolvable bootstrap urls")) {
      return new KafkaFailure("_RESOLVE", "no name in bootstrap.servers can be resolved");
    }
    Set<String> named = new TreeSet<>(AdminClientConfig.configNames());
    named.removeIf(name -> !message.contains(name));
    return new KafkaFailure(
        "_INVALID_ARG",
        "Kafka's client does not accept its settings"
            + (named.isEmpty() ? "" : "; it names " + String.join(", ", named)));
  }

  /** Which silence it is, by how the message of the Admin begins. */
  private static String silence(String message) {
    if (message.startsWith("Timed out waiting for a node assignment")) {
      return "no broker could be reached";
    }
    if (message.startsWith("Exceeded maxRetries")) {
      return NOT_NOW; // it was answered, and retries=0 forbids the Admin to ask again
    }
    return "the broker did not answer in time, or the connection was lost";
  }

  private static <T extends Throwable> T find(Throwable error, Class<T> type) {
    for (Throwable one = error; one != null; one = one.getCause()) {
      if (type.isInstance(one)) {
        return type.cast(one);
      }
    }
    return null;
  }
}
