package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsResult;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Commits offsets to a group.
 *
 * <p>{@code {"group","metadata":[texts],"topics":{topic:[[partition,offset,index of its text]]}}}
 * gives {@code {"topics":{topic:{partition:null or the name of its error}}}}.
 */
final class GroupCommit implements GroupAdmin.Operation {
  private final String group;
  private final Map<TopicPartition, OffsetAndMetadata> positions;

  GroupCommit(CallArguments arguments) {
    group = arguments.text("group");
    positions = PositionsJson.positions(arguments);
  }

  @Override
  public boolean writes() {
    return true;
  }

  @Override
  public Map<String, Object> run(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    AlterConsumerGroupOffsetsResult result =
        admin.alterConsumerGroupOffsets(
            group, positions, new AlterConsumerGroupOffsetsOptions().timeoutMs(deadline.leftMs()));
    Map<String, Map<Integer, String>> topics = new LinkedHashMap<>();
    Set<String> codes = new HashSet<>();
    ExecutionException last = null;
    for (TopicPartition tp : positions.keySet()) {
      String code = null;
      try {
        deadline.await(result.partitionResult(tp));
      } catch (ExecutionException refused) {
        last = refused;
        code = KafkaError.of(refused).code();
      }
      codes.add(code);
      topics
          .computeIfAbsent(tp.topic(), topic -> new LinkedHashMap<>())
          .put(tp.partition(), code);
    }
    if (last != null && codes.size() == 1) {
      throw last; // the error of the request as a whole
    }
    return Map.of("topics", topics);
  }
}
