package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.RefusedException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTransactionsOptions;
import org.apache.kafka.clients.admin.DescribeTransactionsResult;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks the coordinators of some transactional ids for their transactions.
 *
 * <p>{@code {"transactionalIds":[id, ...]}} gives {@code {"described":{id:{"state","producerId",
 * "epoch","timeoutMs","startedAt","topics":{topic:[partitions]}}}}}, and {@code
 * "errors":{id:{"code","cause"}}} of those that could not be described. The state is Kafka's own
 * word, {@code "Ongoing"} for one that is open. It began at {@code "startedAt"}, in milliseconds
 * since 1970, null where none is open.
 */
final class TransactionDescribe implements GroupAdmin.Operation {
  private final List<String> transactionalIds = new ArrayList<>();

  TransactionDescribe(CallArguments arguments) {
    arguments
        .array("transactionalIds")
        .forEach(
            id -> {
              if (!id.isTextual()) {
                throw new RefusedException("the argument \"transactionalIds\" has an invalid id");
              }
              transactionalIds.add(id.textValue());
            });
  }

  @Override
  public boolean writes() {
    return false;
  }

  @Override
  public Map<String, Object> run(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    DescribeTransactionsOptions options = new DescribeTransactionsOptions();
    options.timeoutMs(deadline.leftMs());
    DescribeTransactionsResult result = admin.describeTransactions(transactionalIds, options);
    Map<String, Object> described = new LinkedHashMap<>();
    Map<String, Object> errors = new LinkedHashMap<>();
    for (String id : transactionalIds) {
      try {
        described.put(id, row(deadline.await(result.description(id))));
      } catch (ExecutionException failed) {
        errors.put(id, GroupAdmin.lasting(failed, deadline).texts());
      }
    }
    return Map.of("described", described, "errors", errors);
  }

  private static Map<String, Object> row(TransactionDescription found) {
    Map<String, TreeSet<Integer>> topics = new TreeMap<>();
    for (TopicPartition tp : found.topicPartitions()) {
      topics.computeIfAbsent(tp.topic(), topic -> new TreeSet<>()).add(tp.partition());
    }
    OptionalLong started = found.transactionStartTimeMs();
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("state", found.state().toString());
    row.put("producerId", found.producerId());
    row.put("epoch", found.producerEpoch());
    row.put("timeoutMs", found.transactionTimeoutMs());
    row.put("startedAt", started.isPresent() ? started.getAsLong() : null);
    row.put("topics", topics);
    return row;
  }
}
