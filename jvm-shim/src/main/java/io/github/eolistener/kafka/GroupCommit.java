package io.github.eolistener;

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
 * Commits positions to a group.
 *
 * <p>{@code {"group","metadata":[texts],"topics":{topic:[[partition,offset,index of its text]]}}}
 * gives {@code {"topics":{topic:{partition:null or the name of its error}}}}.
 */
final class GroupCommit implements GroupAdmin.Question {
  private final String group;
  private final Map<TopicPartition, OffsetAndMetadata> positions;

  GroupCommit(Argument argument) {
    group = argument.text("group");
    positions = Positions.read(argument);
  }

  @Override
  public boolean writes() {
    return true;
  }

  @Override
  public Map<String, Object> ask(Admin admin, Limit limit)
      throws ExecutionException, TimeoutException, InterruptedException {
    AlterConsumerGroupOffsetsResult result =
        admin.alterConsumerGroupOffsets(
            group, positions, new AlterConsumerGroupOffsetsOptions().timeoutMs(limit.leftMs()));
    Map<String, Map<Integer, String>> topics = new LinkedHashMap<>();
    Set<String> codes = new HashSet<>();
    ExecutionException last = null;
    for (TopicPartition tp : positions.keySet()) {
      String code = null;
      try {
        limit.await(result.partitionResult(tp));
      } catch (ExecutionException refused) {
        last = refused;
        code = KafkaFailure.of(refused).code();
      }
      codes.add(code);
      topics
          .computeIfAbsent(tp.topic(), topic -> new LinkedHashMap<>())
          .put(tp.partition(), code);
    }
    if (last != null && codes.size() == 1) {
      throw last; // that of the request as a whole
    }
    return Map.of("topics", topics);
  }
}
