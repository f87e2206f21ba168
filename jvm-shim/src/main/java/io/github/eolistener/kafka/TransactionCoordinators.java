package io.github.eolistener.kafka;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeAclsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Finds out who coordinates transactions at this moment, and which rights tell transactional ids
 * apart.
 *
 * <p>Without arguments it gives {@code {"epochs":[epoch, ...],"authorizers":[class, ...],
 * "patterns":[text, ...]}}: the leader epoch of each partition of {@code
 * __transaction_state}, by its own leader, null where it has none, and an empty list where there is
 * no such topic; the classes that brokers have as authorizer, none where there is none; and what
 * ACLs of transactional ids are of, whoever's they are: {@code "LITERAL:name"} or {@code
 * "PREFIXED:name"}.
 */
final class TransactionCoordinators implements GroupAdmin.Operation {
  private static final String TOPIC = Topic.TRANSACTION_STATE_TOPIC_NAME;
  private static final String AUTHORIZER = "authorizer.class.name";

  @Override
  public boolean writes() {
    return false;
  }

  @Override
  public Map<String, Object> run(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("epochs", epochs(admin, deadline));
    Collection<String> authorizers = authorizers(admin, deadline);
    answer.put("authorizers", authorizers);
    answer.put("patterns", authorizers.isEmpty() ? List.of() : patterns(admin, deadline));
    return answer;
  }

  private static List<Integer> epochs(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    List<Integer> epochs = new ArrayList<>();
    List<TopicPartitionInfo> partitions = partitions(admin, deadline);
    if (partitions.stream().anyMatch(one -> one.leader() == null)) {
      partitions.forEach(one -> epochs.add(one.leader() == null ? null : 0));
      return epochs; // older clients ask for no partition where one of the topic has no leader
    }
    ListOffsetsResult ends =
        admin.listOffsets(
            partitions.stream()
                .collect(Collectors.toMap(TransactionCoordinators::of, one -> OffsetSpec.latest())),
            new ListOffsetsOptions().timeoutMs(deadline.leftMs()));
    for (TopicPartitionInfo one : partitions) {
      epochs.add(deadline.await(ends.partitionResult(of(one))).leaderEpoch().orElse(null));
    }
    return epochs;
  }

  private static List<TopicPartitionInfo> partitions(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    try {
      return deadline
          .await(
              admin
                  .describeTopics(
                      List.of(TOPIC), new DescribeTopicsOptions().timeoutMs(deadline.leftMs()))
                  .topicNameValues()
                  .get(TOPIC))
          .partitions();
    } catch (ExecutionException failed) {
      if (KafkaError.of(failed).isOfNoTopic()) {
        return List.of();
      }
      throw failed;
    }
  }

  private static TopicPartition of(TopicPartitionInfo one) {
    return new TopicPartition(TOPIC, one.partition());
  }

  private static Collection<String> authorizers(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    List<ConfigResource> brokers =
        deadline
            .await(
                admin
                    .describeCluster(
                        new DescribeClusterOptions().timeoutMs(deadline.leftMs()))
                    .nodes())
            .stream()
            .map(node -> new ConfigResource(ConfigResource.Type.BROKER, node.idString()))
            .collect(Collectors.toList());
    Collection<String> found = new TreeSet<>();
    for (Config config :
        deadline
            .await(
                admin
                    .describeConfigs(
                        brokers, new DescribeConfigsOptions().timeoutMs(deadline.leftMs()))
                    .all())
            .values()) {
      ConfigEntry authorizer = config.get(AUTHORIZER);
      if (authorizer == null) {
        found.add("?"); // it is not said whether there is one
      } else if (authorizer.value() != null && !authorizer.value().isBlank()) {
        found.add(authorizer.value());
      }
    }
    return found;
  }

  private static List<String> patterns(Admin admin, Deadline deadline)
      throws ExecutionException, TimeoutException, InterruptedException {
    AclBindingFilter all =
        new AclBindingFilter(
            new ResourcePatternFilter(ResourceType.TRANSACTIONAL_ID, null, PatternType.ANY),
            AccessControlEntryFilter.ANY);
    Collection<AclBinding> found =
        deadline.await(
            admin
                .describeAcls(all, new DescribeAclsOptions().timeoutMs(deadline.leftMs()))
                .values());
    return found.stream()
        .map(AclBinding::pattern)
        .map(one -> one.patternType().name() + ":" + one.name())
        .distinct()
        .sorted()
        .collect(Collectors.toList());
  }
}
