package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.RefusedException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionListing;

/**
 * Asks all coordinators under which transactional ids they know some producers.
 *
 * <p>{@code {"producers":[id, ...]}} gives {@code {"listed":[[producerId,transactionalId], ...]}}.
 * Kafka leaves out, without a word, what this client may not describe.
 */
final class TransactionList implements GroupAdmin.Operation {
  private final Set<Long> producers = new HashSet<>();

  TransactionList(CallArguments arguments) {
    arguments
        .array("producers")
        .forEach(
            id -> {
              if (!id.isIntegralNumber() || !id.canConvertToLong()) {
                throw new RefusedException("the argument \"producers\" has an invalid number");
              }
              producers.add(id.longValue());
            });
  }

  @Override
  public boolean writes() {
    return false;
  }

  @Override
  public Map<String, Object> run(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    ListTransactionsOptions options = new ListTransactionsOptions().filterProducerIds(producers);
    options.timeoutMs(deadline.leftMs());
    List<Object> listed = new ArrayList<>();
    for (TransactionListing one : deadline.await(admin.listTransactions(options).all())) {
      listed.add(List.of(one.producerId(), one.transactionalId()));
    }
    return Map.of("listed", listed);
  }
}
