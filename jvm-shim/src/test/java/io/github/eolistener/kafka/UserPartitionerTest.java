package io.github.eolistener.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.github.eolistener.protocol.CallArguments;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class UserPartitionerTest {
  private static final TargetPartitions TARGETS =
      TargetPartitions.of(CallArguments.of("{\"topics\":[[\"a\",3],[\"b\",2]]}"));

  /** Goes by what it is configured with, and by the value. */
  public static final class ByValue implements Partitioner {
    private int added;

    @Override
    public void configure(Map<String, ?> properties) {
      added = Integer.parseInt((String) properties.get("added"));
    }

    @Override
    public int partition(
        String topic, Object key, byte[] keyBytes, Object value, byte[] bytes, Cluster cluster) {
      int all = cluster.partitionCountForTopic(topic);
      assertEquals(all, cluster.availablePartitionsForTopic(topic).size());
      return bytes[0] + added;
    }

    @Override
    public void close() {}
  }

  private static CallArguments named(String name, String added) {
    return CallArguments.of(
        "{\"partitioner\":\"" + name + "\",\"partitionerProperties\":{\"added\":\"" + added
            + "\"}}");
  }

  @Test
  @DisplayName("It is asked with the topic of the row, and configured with what it was given")
  void asked() {
    UserPartitioner user = UserPartitioner.find(named(ByValue.class.getName(), "1")).orElseThrow();
    assertEquals(1, user.choose(TARGETS, "b", null, new byte[] {0}));
    assertEquals(9, user.choose(TARGETS, "b", null, new byte[] {8}));
    assertNull(user.choose(TARGETS, "c", null, new byte[] {0}));
  }

  @Test
  @DisplayName("None is named: there is none")
  void none() {
    assertFalse(UserPartitioner.find(CallArguments.of("{}")).isPresent());
    assertNull(UserPartitioner.check(CallArguments.of("{}")).get("failed"));
  }

  @Test
  @DisplayName("What cannot be loaded, configured or is no partitioner is named by classes alone")
  void failed() {
    assertNull(UserPartitioner.check(named(ByValue.class.getName(), "1")).get("failed"));
    for (String[] one :
        Arrays.asList(
            new String[] {"no.such.Class", "ClassNotFoundException"},
            new String[] {"java.lang.Object", "ClassCastException"},
            new String[] {ByValue.class.getName(), "NumberFormatException"})) {
      assertEquals(one[1], UserPartitioner.check(named(one[0], "hunter2")).get("failed"));
    }
  }
}
