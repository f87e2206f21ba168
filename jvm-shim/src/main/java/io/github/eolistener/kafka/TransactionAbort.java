package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.AbortTransactionOptions;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;

/**
 * Has a partition's leader write the marker that aborts a producer's transaction (KIP-664).
 *
 * <p>{@code {"topic","partition","producerId","epoch","coordinatorEpoch"}} gives an empty object. No
 * coordinator is asked: this is for transactions that none has. So it is sent once: before another
 * marker whoever calls looks again.
 */
final class TransactionAbort implements GroupAdmin.Operation {
  private final AbortTransactionSpec transaction;

  TransactionAbort(CallArguments arguments) {
    transaction =
        new AbortTransactionSpec(
            new TopicPartition(arguments.text("topic"), (int) arguments.whole("partition")),
            arguments.whole("producerId"),
            (short) arguments.whole("epoch"),
            (int) arguments.whole("coordinatorEpoch"));
  }

  @Override
  public boolean writes() {
    return true;
  }

  @Override
  public boolean repeats() {
    return false;
  }

  @Override
  public Map<String, Object> run(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    AbortTransactionOptions options = new AbortTransactionOptions();
    options.timeoutMs(deadline.leftMs());
    deadline.await(admin.abortTransaction(transaction, options).all());
    return Map.of();
  }
}
