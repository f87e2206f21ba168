package io.github.eolistener.kafka;

import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.ErrorClasses;
import io.github.eolistener.protocol.RefusedException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.slf4j.LoggerFactory;

/**
 * The user's {@code partitioner.class}, which is asked before the shuffle: the producers that send
 * are given each row's partition. One instance in each task, which is to close it; it knows the
 * topics of the sink, each partition with a leader.
 */
public final class UserPartitioner implements Serializable, AutoCloseable {
  private static final long serialVersionUID = 1L;
  private static final Node LEADER = new Node(0, "", -1);
  private static final Node[] REPLICAS = {LEADER};

  private final String name;
  private final HashMap<String, String> properties;
  private transient Partitioner partitioner;
  private transient Cluster cluster;

  private UserPartitioner(String name, Map<String, String> properties) {
    this.name = name;
    this.properties = new HashMap<>(properties);
  }

  /**
   * {@code {"partitioner","partitionerProperties":{}}}: the class, and what it is configured with;
   * empty where no class is named.
   */
  public static Optional<UserPartitioner> find(CallArguments arguments) {
    return arguments
        .find("partitioner")
        .map(name -> new UserPartitioner(name, arguments.texts("partitionerProperties")));
  }

  /** {@code {"failed"}}: why the class cannot be used in this JVM; null where it can. */
  public static Map<String, Object> check(CallArguments arguments) {
    String failed = null;
    try {
      find(arguments).ifPresent(UserPartitioner::tried);
    } catch (RefusedException refused) {
      failed = refused.getMessage();
    }
    return Collections.singletonMap("failed", failed);
  }

  /**
   * The number of the partition within its topic, which may be none that exists; null where the row
   * goes to no topic.
   */
  public Integer choose(TargetPartitions targets, String named, byte[] key, byte[] value) {
    String topic = targets.topic(named);
    if (topic == null) {
      return null;
    }
    Partitioner asked = opened();
    if (cluster == null) {
      List<PartitionInfo> partitions = new ArrayList<>();
      targets
          .all()
          .forEach(
              tp ->
                  partitions.add(
                      new PartitionInfo(tp.topic(), tp.partition(), LEADER, REPLICAS, REPLICAS)));
      cluster =
          new Cluster(
              "eo-listener",
              List.of(LEADER),
              partitions,
              Collections.emptySet(),
              Collections.emptySet());
    }
    return asked.partition(topic, key, key, value, value, cluster);
  }

  /** Closes what was opened, if anything; what it throws then does no harm to rows. */
  @Override
  public void close() {
    Partitioner opened = partitioner;
    partitioner = null;
    if (opened == null) {
      return;
    }
    try {
      opened.close();
    } catch (RuntimeException failed) {
      LoggerFactory.getLogger(UserPartitioner.class)
          .warn("eo_listener: closing {} failed: {}", name, ErrorClasses.of(failed));
    }
  }

  private void tried() {
    opened();
    close();
  }

  private Partitioner opened() {
    if (partitioner == null) {
      // That of the shim sees what came by spark.jars, in the driver and in executors.
      ClassLoader loader = UserPartitioner.class.getClassLoader();
      try {
        Object made = Class.forName(name, true, loader).getConstructor().newInstance();
        Partitioner found = (Partitioner) made;
        found.configure(properties);
        partitioner = found;
      } catch (ReflectiveOperationException | LinkageError | RuntimeException failed) {
        throw new RefusedException(ErrorClasses.of(failed));
      }
    }
    return partitioner;
  }
}
