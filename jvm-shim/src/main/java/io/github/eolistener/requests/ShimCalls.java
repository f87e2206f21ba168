package io.github.eolistener;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What Python has done for it inside Spark's JVM, each by a name, an argument and an answer, both
 * JSON texts.
 *
 * <p>{@code stores.pem}: a key store as PEM ({@link KeyStores}). {@code groups.commit}, {@code
 * groups.look}, {@code groups.close}: consumer groups by Spark's own kafka-clients ({@link
 * Groups}). An answer is an object that begins with {@code "v":1}.
 */
public final class Hands {
  private static final int FORMAT = 1;
  private static final ObjectMapper JSON = new ObjectMapper();

  private Hands() {}

  /**
   * Does {@code what} with {@code argument}. Both and the answer may hold secrets: keep them out of
   * logs.
   *
   * @throws IllegalStateException saying the problem and its likely cause, never a secret
   */
  public static String call(String what, String argument) {
    try {
      Map<String, Object> answer = new LinkedHashMap<>();
      answer.put("v", FORMAT);
      answer.putAll(done(what, Argument.of(argument)));
      return JSON.writeValueAsString(answer);
    } catch (Refusal refusal) {
      throw new IllegalStateException(refusal.getMessage());
    } catch (LinkageError absent) {
      throw new IllegalStateException(
          what + " needs a class that is not there (" + absent.getMessage() + "): give Spark its"
              + " Kafka connector and the shim in the same way, by spark.jars and"
              + " spark.jars.packages");
    } catch (JsonProcessingException | RuntimeException fault) {
      // A foreign message may quote a value, so only classes are named; no cause goes along, since
      // whoever prints a stack trace prints its message too.
      throw new IllegalStateException(what + " failed: " + Failure.classes(fault));
    }
  }

  /** What is named here is linked when it is first asked for: kafka-clients may not be there. */
  private static Map<String, Object> done(String what, Argument argument) {
    switch (what == null ? "" : what) {
      case "stores.pem":
        return KeyStores.pem(argument);
      case "groups.commit":
        return Groups.commit(argument);
      case "groups.look":
        return Groups.look(argument);
      case "groups.close":
        return Groups.close(argument);
      default:
        throw new Refusal(
            "this shim cannot do " + what + ": the jar given to Spark is of another version than"
                + " the Python package");
    }
  }
}
