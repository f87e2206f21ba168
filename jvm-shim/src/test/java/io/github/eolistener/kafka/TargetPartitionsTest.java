package io.github.eolistener.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.RefusedException;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class TargetPartitionsTest {
  private static final TargetPartitions TWO = of("[[\"a\",3],[\"b\",2]]");
  private static final TargetPartitions ONE = of("[[\"a\",3]]");

  private static TargetPartitions of(String topics) {
    return TargetPartitions.of(CallArguments.of("{\"topics\":" + topics + "}"));
  }

  @Test
  @DisplayName("Every partition of every topic has a number of its own")
  void numbers() {
    assertEquals(5, TWO.size());
    assertEquals(5, Set.copyOf(TWO.all()).size());
    assertEquals(new TopicPartition("b", 1), TWO.at(TWO.choose("b", null, 1, 0)));
    assertEquals(new TopicPartition("a", 0), TWO.at(0));
    assertEquals(new TopicPartition("b", 0), TWO.at(3));
  }

  @Test
  @DisplayName("A key goes where Kafka's own partitioner would send it")
  void keys() {
    for (int i = 0; i < 1000; i++) {
      byte[] key = ("key-" + i).getBytes(StandardCharsets.UTF_8);
      assertEquals(BuiltInPartitioner.partitionForKey(key, 3), ONE.choose("x", key, null, i));
      assertEquals(3 + BuiltInPartitioner.partitionForKey(key, 2), TWO.choose("b", key, null, i));
    }
  }

  @Test
  @DisplayName("The partition of a row goes before its key")
  void named() {
    assertEquals(2, ONE.choose(null, new byte[] {1}, 2, 9));
  }

  @Test
  @DisplayName("Rows without a key are spread by their place, the first ones of each task too")
  void withoutKey() {
    Set<Integer> ofOneTask = new TreeSet<>();
    Set<Integer> first = new TreeSet<>();
    for (long i = 0; i < 3; i++) {
      ofOneTask.add(ONE.choose(null, null, null, (5L << 33) + i));
      first.add(ONE.choose(null, null, null, i << 33));
    }
    assertEquals(Set.of(0, 1, 2), ofOneTask);
    assertEquals(Set.of(0, 1, 2), first);
  }

  @Test
  @DisplayName("A row that can go nowhere says why")
  void nowhere() {
    assertEquals(TargetPartitions.NO_TOPIC, TWO.choose(null, null, null, 0));
    assertEquals(TargetPartitions.OTHER_TOPIC, TWO.choose("c", null, null, 0));
    assertEquals(TargetPartitions.NO_SUCH_PARTITION, TWO.choose("b", null, 2, 0));
    assertEquals(TargetPartitions.NO_SUCH_PARTITION, TWO.choose("b", null, -1, 0));
  }

  @Test
  @DisplayName("Topics without partitions, or none, are refused")
  void refused() {
    assertThrows(RefusedException.class, () -> of("[]"));
    assertThrows(RefusedException.class, () -> of("[[\"a\",0]]"));
  }
}
