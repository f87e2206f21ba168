package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
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
 * Reads the committed offsets of a group, and start and end of the logs of its partitions.
 *
 * <p>{@code {"group","topics":{topic:[partitions]}}} gives the committed offsets, {@code
 * "committed":{topic:[[partition,offset,index]]}} with {@code "metadata":[texts]}, and the logs,
 * {@code "logs":{topic:{"id":text or null,"partitions":[[partition,start,end]]}}}. What does not
 * exist is left out. The end is the log end offset, open transactions included. {@code
 * "errors":{topic:name of its error}} has the topics that the broker refuses; they appear nowhere
 * else.
 */
final class GroupSnapshot implements GroupAdmin.Operation {
  private final String group;
  private final List<TopicPartition> partitions;

  GroupSnapshot(CallArguments arguments) {
    group = arguments.text("group");
    partitions = PositionsJson.partitions(arguments);
  }

  @Override
  public boolean writes() {
    return false;
  }

  @Override
  public Map<String, Object> run(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    // First, since only this reports a missing right to a topic: the committed offsets of such a
    // topic are just left out, as if there were none.
    Map<String, String> errors = new LinkedHashMap<>();
    List<TopicDescription> topics = topics(admin, deadline, errors);
    List<TopicPartition> readable = new ArrayList<>(partitions);
    readable.removeIf(tp -> errors.containsKey(tp.topic()));
    KafkaFuture<Map<TopicPartition, OffsetAndMetadata>> committed =
        admin
            .listConsumerGroupOffsets(
                Map.of(group, new ListConsumerGroupOffsetsSpec().topicPartitions(readable)),
                new ListConsumerGroupOffsetsOptions().timeoutMs(deadline.leftMs()))
            .partitionsToOffsetAndMetadata(group);
    Set<TopicPartition> existing = existing(topics);
    ListOffsetsResult starts = listOffsets(admin, existing, OffsetSpec.earliest(), deadline);
    ListOffsetsResult ends = listOffsets(admin, existing, OffsetSpec.latest(), deadline);
    Map<String, List<long[]>> logs = new LinkedHashMap<>();
    for (TopicPartition tp : existing) {
      long start = deadline.await(starts.partitionResult(tp)).offset();
      long end = deadline.await(ends.partitionResult(tp)).offset();
      logs.computeIfAbsent(tp.topic(), topic -> new ArrayList<>())
          .add(new long[] {tp.partition(), start, end});
    }
    Map<String, Object> answer = PositionsJson.committed(deadline.await(committed));
    answer.put("logs", logs(topics, logs));
    answer.put("errors", errors);
    return answer;
  }

  /** The existing topics; the errors of those that the broker refuses go into {@code errors}. */
  private List<TopicDescription> topics(Admin admin, Deadline deadline, Map<String, String> errors)
      throws ExecutionException, TimeoutException, InterruptedException {
    Set<String> names = new LinkedHashSet<>();
    partitions.forEach(tp -> names.add(tp.topic()));
    List<TopicDescription> found = new ArrayList<>();
    for (Map.Entry<String, KafkaFuture<TopicDescription>> topic :
        admin
            .describeTopics(
                TopicCollection.ofTopicNames(names),
                new DescribeTopicsOptions().timeoutMs(deadline.leftMs()))
            .topicNameValues()
            .entrySet()) {
      try {
        found.add(deadline.await(topic.getValue()));
      } catch (ExecutionException failed) {
        KafkaError error = KafkaError.of(failed);
        if (error.isOfOneTopic()) {
          errors.put(topic.getKey(), error.code());
        } else if (!error.isOfNoTopic()) {
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
    Set<TopicPartition> existing = new LinkedHashSet<>(partitions);
    existing.retainAll(all);
    return existing;
  }

  private static ListOffsetsResult listOffsets(
      Admin admin, Set<TopicPartition> partitions, OffsetSpec spec, Deadline deadline) {
    Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
    partitions.forEach(tp -> specs.put(tp, spec));
    return admin.listOffsets(specs, new ListOffsetsOptions().timeoutMs(deadline.leftMs()));
  }

  private static Map<String, Object> logs(
      List<TopicDescription> topics, Map<String, List<long[]>> partitions) {
    Map<String, Object> described = new LinkedHashMap<>();
    for (TopicDescription topic : topics) {
      Map<String, Object> log = new LinkedHashMap<>();
      // All zeros: the broker does not have topic ids.
      log.put("id", Uuid.ZERO_UUID.equals(topic.topicId()) ? null : topic.topicId().toString());
      log.put("partitions", partitions.getOrDefault(topic.name(), List.of()));
      described.put(topic.name(), log);
    }
    return described;
  }
}
