package io.github.eolistener.requests;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.eolistener.kafka.GroupCalls;
import io.github.eolistener.kafka.TransactionCalls;
import io.github.eolistener.kafka.UserPartitioner;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.ErrorClasses;
import io.github.eolistener.protocol.RefusedException;
import io.github.eolistener.sink.BatchWrites;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The calls that Python makes into Spark's JVM, or a {@link ShimProcess}, each with a name, an
 * argument and an answer, both JSON.
 *
 * <p>{@code stores.pem}: a key store as PEM ({@link KeyStoreReader}). {@code groups.commit}, {@code
 * groups.snapshot}, {@code groups.close}: consumer groups through Spark's own kafka-clients ({@link
 * GroupCalls}). {@code transactions.missing}, {@code transactions.describe}, {@code
 * transactions.producers}, {@code transactions.list}: transactions ({@link TransactionCalls}).
 * {@code rows.open}, {@code rows.there}, {@code rows.reports}, {@code rows.close}: a batch that
 * tasks write, into one or into none ({@link BatchWrites}). {@code rows.partitioner}: whether a
 * partitioner can be used ({@link UserPartitioner}). An answer is an object that begins with
 * {@code "v":1}.
 */
public final class ShimCalls {
  private static final int FORMAT = 1;
  private static final ObjectMapper JSON = new ObjectMapper();

  private ShimCalls() {}

  /**
   * Makes the call {@code name}. Argument and answer may hold secrets: keep them out of logs.
   *
   * @throws IllegalStateException with the problem and its likely cause, never a secret
   */
  public static String call(String name, String argument) {
    try {
      Map<String, Object> answer = new LinkedHashMap<>();
      answer.put("v", FORMAT);
      answer.putAll(run(name, CallArguments.of(argument)));
      return JSON.writeValueAsString(answer);
    } catch (RefusedException refused) {
      throw new IllegalStateException(refused.getMessage());
    } catch (LinkageError absent) {
      throw new IllegalStateException(
          name + " needs a class that is missing: " + absent.getMessage() + ". Fix: give Spark its"
              + " Kafka connector and the shim in the same way, by spark.jars and"
              + " spark.jars.packages");
    } catch (JsonProcessingException | RuntimeException fault) {
      // Another library's message may quote a value, so only classes are named. No cause is
      // attached, since a stack trace prints its message too.
      throw new IllegalStateException(name + " failed: " + ErrorClasses.of(fault));
    }
  }

  /** Each class is linked when it is first called: kafka-clients may be missing. */
  private static Map<String, Object> run(String name, CallArguments arguments) {
    switch (name == null ? "" : name) {
      case "stores.pem":
        return KeyStoreReader.pem(arguments);
      case "groups.commit":
        return GroupCalls.commit(arguments);
      case "groups.snapshot":
        return GroupCalls.snapshot(arguments);
      case "groups.close":
        return GroupCalls.close(arguments);
      case "transactions.missing":
        return TransactionCalls.missing();
      case "transactions.describe":
        return TransactionCalls.describe(arguments);
      case "transactions.producers":
        return TransactionCalls.producers(arguments);
      case "transactions.list":
        return TransactionCalls.list(arguments);
      case "rows.partitioner":
        return UserPartitioner.check(arguments);
      case "rows.open":
        return BatchWrites.open(arguments);
      case "rows.there":
        return BatchWrites.leaveOut(arguments);
      case "rows.reports":
        return BatchWrites.reports(arguments);
      case "rows.close":
        return BatchWrites.close(arguments);
      default:
        throw new RefusedException(
            "this shim does not have the call " + name + ". Cause: the jar given to Spark is of"
                + " another version than the Python package");
    }
  }
}
