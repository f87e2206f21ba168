package io.github.eolistener.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.RefusedException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

/**
 * The partitions of a sink's topics, numbered through, and which of them a row goes to.
 *
 * <p>As Kafka's default partitioner: where the row names a partition, that one; else by its key. A
 * row without a key goes by its place, so that the rows of a batch are spread evenly. What {@link
 * UserPartitioner} chooses counts as named by the row.
 */
public final class TargetPartitions implements Serializable {
  private static final long serialVersionUID = 1L;

  /** What stands in place of a partition for a row that can go nowhere. */
  public static final int NO_TOPIC = -1;

  public static final int OTHER_TOPIC = -2;
  public static final int NO_SUCH_PARTITION = -3;

  private final ArrayList<String> topics = new ArrayList<>();
  private final HashMap<String, Integer> indexes = new HashMap<>(); // asked for each row
  private final ArrayList<Integer> starts = new ArrayList<>();
  private final ArrayList<Integer> counts = new ArrayList<>();
  private int size;

  private TargetPartitions() {}

  /** {@code {"topics":[[topic, its number of partitions]]}}. */
  public static TargetPartitions of(CallArguments arguments) {
    TargetPartitions made = new TargetPartitions();
    for (JsonNode one : arguments.array("topics")) {
      if (one.size() != 2 || one.get(1).asInt() < 1) {
        throw new RefusedException("the argument \"topics\" must be pairs of a name and a number");
      }
      made.indexes.put(one.get(0).asText(), made.topics.size());
      made.topics.add(one.get(0).asText());
      made.starts.add(made.size);
      made.counts.add(one.get(1).asInt());
      made.size += one.get(1).asInt();
    }
    if (made.topics.isEmpty()) {
      throw new RefusedException("the argument \"topics\" is empty");
    }
    return made;
  }

  /**
   * The number of the partition of a row, or one of the constants of this class. Where there is
   * but one topic, the row's is not read.
   *
   * @param place of the row, a {@link RowPlace}
   */
  public int choose(String topic, byte[] key, Integer partition, long place) {
    Integer index = topics.size() == 1 ? Integer.valueOf(0) : indexes.get(topic);
    if (index == null) {
      return topic == null ? NO_TOPIC : OTHER_TOPIC;
    }
    int count = counts.get(index);
    if (partition != null) {
      return partition >= 0 && partition < count
          ? starts.get(index) + partition
          : NO_SUCH_PARTITION;
    }
    return starts.get(index) + (key == null ? spread(place, count) : byKey(key, count));
  }

  /** The topic of a row that names this one; null where it is none of those here. */
  String topic(String named) {
    if (topics.size() == 1) {
      return topics.get(0);
    }
    return indexes.containsKey(named) ? named : null;
  }

  /** The partition of that number. */
  public TopicPartition at(int number) {
    int index = topics.size() - 1;
    while (starts.get(index) > number) {
      index--;
    }
    return new TopicPartition(topics.get(index), number - starts.get(index));
  }

  /** How many there are. */
  public int size() {
    return size;
  }

  /** All of them, in the order of their numbers. */
  public List<TopicPartition> all() {
    List<TopicPartition> all = new ArrayList<>();
    for (int number = 0; number < size; number++) {
      all.add(at(number));
    }
    return all;
  }

  private static int byKey(byte[] key, int count) {
    return Utils.toPositive(Utils.murmur2(key)) % count;
  }

  /** Tasks begin at different partitions, so that small batches do not all go to the first. */
  private static int spread(long place, int count) {
    return (int) ((RowPlace.task(place) + RowPlace.number(place)) % count);
  }
}
