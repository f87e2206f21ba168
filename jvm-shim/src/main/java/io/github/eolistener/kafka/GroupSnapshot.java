package io.github.eolistener;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/**
 * Reads where a group and the logs behind it stand.
 *
 * <p>{@code {"group","topics":{topic:[partitions]}}} gives what the group holds, {@code
 * "held":{topic:[[partition,offset,index]]}} beside {@code "metadata":[texts]}, and what is there,
 * {@code "logs":{topic:{"id":text or null,"partitions":[[partition,start,end]]}}}. What does not
 * exist is left out. The end is that of the log itself, open transactions included. {@code
 * "errors":{topic:name of its error}} has the topics that the broker refuses; nothing else is said of
 * them.
 */
final class GroupLook implements GroupAdmin.Question {
  private final String group;
  private final List<TopicPartition> partitions;

  GroupLook(Argument argument) {
    group = argument.text("group");
    partitions = Positions.partitions(argument);
  }

  @Override
  public boolean writes() {
    return false;
  }

  @Override
  public Map<String, Object> ask(Admin admin, Limit limit)
      throws ExecutionException, TimeoutException, InterruptedException {
    // First, since this says it when a right to a topic is missing: the group's offsets of such a
    // topic are only left out, as if there were none.
    Map<String, String> errors = new LinkedHashMap<>();
    List<TopicDescription> topics = topics(admin, limit, errors);
    List<TopicPartition> seen = new ArrayList<>(partitions);
    seen.removeIf(tp -> errors.containsKey(tp.topic()));
    KafkaFuture<Map<TopicPartition, OffsetAndMetadata>> held =
        admin
            .listConsumerGroupOffsets(
                Map.of(group, new ListConsumerGroupOffsetsSpec().topicPartitions(seen)),
                new ListConsumerGroupOffsetsOptions().timeoutMs(limit.leftMs()))
            .partitionsToOffsetAndMetadata(group);
    Set<TopicPartition> there = existing(topics);
    ListOffsetsResult starts = edges(admin, there, OffsetSpec.earliest(), limit);
    ListOffsetsResult ends = edges(admin, there, OffsetSpec.latest(), limit);
    Map<String, List<long[]>> logs = new LinkedHashMap<>();
    for (TopicPartition tp : there) {
      long start = limit.await(starts.partitionResult(tp)).offset();
      long end = limit.await(ends.partitionResult(tp)).offset();
      logs.computeIfAbsent(tp.topic(), topic -> new ArrayList<>())
          .add(new long[] {tp.partition(), start, end});
    }
    Map<String, Object> answer = Positions.written(limit.await(held));
    answer.put("logs", described(topics, logs));
    answer.put("errors", errors);
    return answer;
  }

  /** The topics that exist; puts the errors of those that are refused into {@code errors}. */
  private List<TopicDescription> topics(Admin admin, Limit limit, Map<String, String> errors)
      throws ExecutionException, TimeoutException, InterruptedException {
    Set<String> names = new LinkedHashSet<>();
    partitions.forEach(tp -> names.add(tp.topic()));
    List<TopicDescription> found = new ArrayList<>();
    for (Map.Entry<String, KafkaFuture<TopicDescription>> topic :
        admin
            .describeTopics(
                TopicCollection.ofTopicNames(names),
                new DescribeTopicsOptions().timeoutMs(limit.leftMs()))
            .topicNameValues()
            .entrySet()) {
      try {
        found.add(limit.await(topic.getValue()));
      } catch (ExecutionException failed) {
        KafkaFailure failure = KafkaFailure.of(failed);
        if (failure.isOfOneTopic()) {
          errors.put(topic.getKey(), failure.code());
        } else if (!failure.isOfNoTopic()) {
          throw failed;
        }
      }
    }
    return found;
  }

  private Set<TopicPartition> existing(List<TopicDescription> topics) {
    Set<TopicPartition> all = new LinkedHashSet<>();
    for (TopicDescription topic : topics) {
      topic
          .partitions()
          .forEach(part -> all.add(new TopicPartition(topic.name(), part.partition())));
    }
    Set<TopicPartition> asked = new LinkedHashSet<>(partitions);
    asked.retainAll(all);
    return asked;
  }

  private static ListOffsetsResult edges(
      Admin admin, Set<TopicPartition> partitions, OffsetSpec edge, Limit limit) {
    Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
    partitions.forEach(tp -> asked.put(tp, edge));
    return admin.listOffsets(asked, new ListOffsetsOptions().timeoutMs(limit.leftMs()));
  }

  private static Map<String, Object> described(
      List<TopicDescription> topics, Map<String, List<long[]>> logs) {
    Map<String, Object> described = new LinkedHashMap<>();
    for (TopicDescription topic : topics) {
      Map<String, Object> log = new LinkedHashMap<>();
      // All zeros: the broker knows no topic ids.
      log.put("id", Uuid.ZERO_UUID.equals(topic.topicId()) ? null : topic.topicId().toString());
      log.put("partitions", logs.getOrDefault(topic.name(), List.of()));
      described.put(topic.name(), log);
    }
    return described;
  }
}
