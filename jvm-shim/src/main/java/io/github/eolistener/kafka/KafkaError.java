package io.github.eolistener.kafka;

import io.github.eolistener.protocol.ErrorClasses;
import io.github.eolistener.protocol.RefusedException;
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
 * An error of Kafka or of its client: its name, and the likely cause in our own words.
 *
 * <p>The name is Kafka's ({@link Errors}); where Kafka has none, that of librdkafka, as
 * Python uses them: {@code _SSL}, {@code _AUTHENTICATION}, {@code _RESOLVE}, {@code _INVALID_ARG}.
 * REQUEST_TIMED_OUT means that the outcome is unknown.
 */
final class KafkaError {
  private static final String RETRIABLE = "the broker answered with a retriable error";

  private final String code;
  private final String cause;

  private KafkaError(String code, String cause) {
    this.code = code;
    this.cause = cause;
  }

  /**
   * The error that a client threw.
   *
   * @throws RefusedException for one that is not Kafka's
   */
  static KafkaError of(Exception thrown) {
    Throwable error = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
    String classes = ErrorClasses.of(error);
    if (find(error, SslAuthenticationException.class) != null) {
      return new KafkaError("_SSL", "the TLS handshake failed: " + classes);
    }
    if (find(error, AuthenticationException.class) != null
        || find(error, LoginException.class) != null) {
      return new KafkaError("_AUTHENTICATION", "the login failed: " + classes);
    }
    if (find(error, ConfigException.class) != null) {
      return ofSettings(find(error, ConfigException.class));
    }
    if (find(error, TimeoutException.class) != null) {
      return unanswered(unansweredCause(String.valueOf(error.getMessage())));
    }
    Errors known = Errors.forException(error);
    if (error instanceof ApiException) {
      return new KafkaError(known.name(), "the error of Kafka's client is " + classes);
    }
    if (error == thrown && error instanceof KafkaException) {
      return new KafkaError("_INVALID_ARG", "Kafka's client cannot be opened: " + classes);
    }
    throw new RefusedException("Kafka's client failed: " + classes);
  }

  static KafkaError unanswered(String cause) {
    return new KafkaError(Errors.REQUEST_TIMED_OUT.name(), cause);
  }

  String code() {
    return code;
  }

  /** Whether the broker answered, with a retriable error: no request is in flight then. */
  boolean isRetriable() {
    return cause.equals(RETRIABLE);
  }

  boolean isOfCredentials() {
    return code.equals("_AUTHENTICATION") || code.equals("_SSL");
  }

  boolean isOfNoTopic() {
    return code.equals(Errors.UNKNOWN_TOPIC_OR_PARTITION.name());
  }

  /** Whether the broker refuses this topic; others may be fine. */
  boolean isOfOneTopic() {
    return code.equals(Errors.TOPIC_AUTHORIZATION_FAILED.name())
        || code.equals(Errors.INVALID_TOPIC_EXCEPTION.name());
  }

  Map<String, Object> answer() {
    return Map.of("error", texts());
  }

  Map<String, String> texts() {
    return Map.of("code", code, "cause", cause);
  }

  /** Its message quotes the value, so only the names of settings in it are passed on. */
  private static KafkaError ofSettings(ConfigException error) {
    String message = String.valueOf(error.getMessage());
    if (message.startsWith("No resolvable bootstrap urls")) {
      return new KafkaError("_RESOLVE", "no host name of bootstrap.servers can be resolved");
    }
    Set<String> named = new TreeSet<>(AdminClientConfig.configNames());
    named.removeIf(name -> !message.contains(name));
    return new KafkaError(
        "_INVALID_ARG",
        "Kafka's client rejects its settings"
            + (named.isEmpty() ? "" : ": " + String.join(", ", named)));
  }

  /** Why there was no answer, by how the message of the Admin begins. */
  private static String unansweredCause(String message) {
    if (message.startsWith("Timed out waiting for a node assignment")) {
      return "no broker could be reached";
    }
    if (message.startsWith("Exceeded maxRetries")) {
      return RETRIABLE; // there was an answer, and retries=0 forbids another request
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
