package io.github.eolistener.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.NotEnoughReplicasException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class TaskProducerTest {
  @Test
  @DisplayName("The first record that fails closes the client; those that fail with it do not")
  void failsOnce() {
    Client client = new Client();
    TaskProducer producer = new TaskProducer(new Given(client), "test");
    for (int i = 0; i < 3; i++) {
      producer.send(new TopicPartition("t", 0), null, new byte[0], null);
    }
    client.waiting.get(0).onCompletion(null, new NotEnoughReplicasException("first"));
    client.waiting.get(1).onCompletion(null, new KafkaException("Producer is closed forcefully."));
    client.waiting.get(2).onCompletion(null, new KafkaException("Producer is closed forcefully."));
    assertEquals(1, client.closed);
    assertFalse(producer.sends());
    assertEquals("NOT_ENOUGH_REPLICAS", producer.failure().orElseThrow().get("code"));
  }

  @Test
  @DisplayName("A record that the client does not take closes it too: others may be queued")
  void refuses() {
    Client client = new Client();
    client.refused = new KafkaException("an error state");
    TaskProducer producer = new TaskProducer(new Given(client), "test");
    producer.send(new TopicPartition("t", 0), null, new byte[0], null);
    assertEquals(1, client.closed);
    assertFalse(producer.sends());
  }

  /** Sends nothing. */
  private static final class Client extends KafkaProducer<byte[], byte[]> {
    private final List<Callback> waiting = new ArrayList<>();
    private KafkaException refused;
    private int closed;

    Client() {
      super(
          Map.of("bootstrap.servers", "localhost:1"),
          new ByteArraySerializer(),
          new ByteArraySerializer());
    }

    @Override
    public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback told) {
      if (refused != null) {
        throw refused;
      }
      waiting.add(told);
      return null;
    }

    @Override
    public void close(Duration limit) {
      closed++;
      super.close(limit);
    }
  }

  private static final class Given implements TaskProducers {
    private static final long serialVersionUID = 1L;

    private final transient Client client;

    Given(Client client) {
      this.client = client;
    }

    @Override
    public KafkaProducer<byte[], byte[]> open(String name) {
      return client;
    }
  }
}
