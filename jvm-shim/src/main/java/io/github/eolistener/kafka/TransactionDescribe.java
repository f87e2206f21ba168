package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
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
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks a transaction's coordinator for it.
 *
 * <p>{@code {"transactionalId"}} gives {@code {"state","producerId","epoch","timeoutMs","startedAt",
 * "topics":{topic:[partitions]}}}; the state is Kafka's own word, {@code "Ongoing"} for one that is
 * open. It began at {@code "startedAt"}, in milliseconds since 1970, null where none is open.
 */
final class TransactionDescribe implements GroupAdmin.Operation {
  private final String transactionalId;

  TransactionDescribe(CallArguments arguments) {
    transactionalId = arguments.text("transactionalId");
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
    TransactionDescription found =
        deadline.await(
            admin
                .describeTransactions(List.of(transactionalId), options)
                .description(transactionalId));
    Map<String, TreeSet<Integer>> topics = new TreeMap<>();
    for (TopicPartition tp : found.topicPartitions()) {
      topics.computeIfAbsent(tp.topic(), topic -> new TreeSet<>()).add(tp.partition());
    }
    OptionalLong started = found.transactionStartTimeMs();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("state", found.state().toString());
    answer.put("producerId", found.producerId());
    answer.put("epoch", found.producerEpoch());
    answer.put("timeoutMs", found.transactionTimeoutMs());
    answer.put("startedAt", started.isPresent() ? started.getAsLong() : null);
    answer.put("topics", topics);
    return answer;
  }
}
