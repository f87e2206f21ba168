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

  private static int closed;

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
    public void close() {
      closed++;
      if (added < 0) {
        throw new IllegalStateException("hunter2");
      }
    }
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
  @DisplayName("It is closed once, also where that fails; one that was not opened is not")
  void closed() {
    for (String added : Arrays.asList("1", "-1")) {
      UserPartitioner user =
          UserPartitioner.find(named(ByValue.class.getName(), added)).orElseThrow();
      closed = 0;
      user.close();
      assertEquals(0, closed);
      user.choose(TARGETS, "b", null, new byte[] {2});
      user.close();
      user.close();
      assertEquals(1, closed);
    }
    UserPartitioner.check(named(ByValue.class.getName(), "-1"));
    assertEquals(2, closed);
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
