package io.github.eolistener.spark;

import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.Partition;
import org.apache.spark.api.java.JavaRDD;

/**
 * What the tasks of an RDD read.
 *
 * <p>Steps that move no rows between tasks hand on the partition of the source. A shuffle, a
 * coalesce, a union and a checkpoint make partitions of another kind; a sort is behind a shuffle.
 * Python's {@code task_ranges} reads the same, for the ranges, by a call for each task and step: too
 * slow for each batch of many tasks.
 */
public final class SourcePartitions {
  private SourcePartitions() {}

  /**
   * Whether the rows of no two tasks have an order: each reads a Kafka partition that no other one
   * reads, or there is but one task. False also where that cannot be told.
   */
  public static boolean areApart(JavaRDD<?> rows) {
    List<Partition> tasks = rows.partitions();
    Set<Object> seen = new HashSet<>();
    return tasks.size() < 2
        || tasks.stream()
            .map(SourcePartitions::read)
            .allMatch(read -> read.isPresent() && seen.add(read.get()));
  }

  /** The Kafka partition that a task reads; empty where it is not one. */
  private static Optional<Object> read(Partition task) {
    SparkObject made = new SparkObject(task);
    // A Seq; from Spark 4.2 on an Option. The connector's older source has neither.
    List<SparkObject> inputs =
        made.tryCall("inputPartitions")
            .or(() -> made.tryCall("inputPartition"))
            .map(SparkObject::elements)
            .orElse(List.of(made));
    return inputs.size() == 1
        ? inputs
            .get(0)
            .tryCall("offsetRange")
            .flatMap(range -> range.tryCall("topicPartition"))
            .map(SparkObject::get)
        : Optional.empty();
  }
}
