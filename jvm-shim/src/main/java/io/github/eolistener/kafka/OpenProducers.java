package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.DescribeProducersResult;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks the leaders of partitions which producers have a transaction open there (KIP-664).
 *
 * <p>{@code {"topics":{topic:[partition, ...]}}} gives {@code
 * "open":{topic:[[partition,producerId,epoch,start,lastSequence,lastTimestamp], ...]}} and {@code
 * "errors":{topic:{partition:{"code","cause"}}}} with the partitions that could not be asked for.
 */
final class OpenProducers implements GroupAdmin.Operation {
  private final List<TopicPartition> partitions;

  OpenProducers(CallArguments arguments) {
    partitions = PositionsJson.partitions(arguments);
  }

  @Override
  public boolean writes() {
    return false;
  }

  @Override
  public Map<String, Object> run(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    DescribeProducersResult result =
        admin.describeProducers(
            partitions, new DescribeProducersOptions().timeoutMs(deadline.leftMs()));
    Map<String, List<long[]>> open = new LinkedHashMap<>();
    Map<String, Map<Integer, Object>> errors = new LinkedHashMap<>();
    for (TopicPartition tp : partitions) {
      try {
        for (ProducerState state :
            deadline.await(result.partitionResult(tp)).activeProducers()) {
          if (state.currentTransactionStartOffset().isPresent()) {
            open.computeIfAbsent(tp.topic(), topic -> new ArrayList<>()).add(row(tp, state));
          }
        }
      } catch (ExecutionException failed) {
        errors
            .computeIfAbsent(tp.topic(), topic -> new LinkedHashMap<>())
            .put(tp.partition(), GroupAdmin.lasting(failed, deadline).texts());
      }
    }
    return Map.of("open", open, "errors", errors);
  }

  private static long[] row(TopicPartition tp, ProducerState state) {
    return new long[] {
      tp.partition(),
      state.producerId(),
      state.producerEpoch(),
      state.currentTransactionStartOffset().getAsLong(),
      state.lastSequence(),
      state.lastTimestamp()
    };
  }
}
