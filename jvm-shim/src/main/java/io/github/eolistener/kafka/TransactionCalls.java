package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import java.util.Collections;
import java.util.Map;

/** What Python asks about transactions; an error of Kafka is an answer, as in GroupCalls. */
public final class TransactionCalls {
  private TransactionCalls() {}

  /**
   * {@code {"missing"}}: what this kafka-clients lacks for producers that join another one's
   * transaction, null where it lacks nothing.
   */
  public static Map<String, Object> missing() {
    return Collections.singletonMap("missing", TransactionJoin.missing().orElse(null));
  }

  /** See {@link TransactionDescribe}; {@code "client"} is one as for groups, and closed as those. */
  public static Map<String, Object> describe(CallArguments arguments) {
    return GroupCalls.run(arguments, new TransactionDescribe(arguments));
  }

  /** See {@link OpenProducers}. */
  public static Map<String, Object> producers(CallArguments arguments) {
    return GroupCalls.run(arguments, new OpenProducers(arguments));
  }

  /** See {@link TransactionList}. */
  public static Map<String, Object> list(CallArguments arguments) {
    return GroupCalls.run(arguments, new TransactionList(arguments));
  }
}
