package io.github.eolistener.sink;

import io.github.eolistener.faults.FaultPoint;
import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducer;
import io.github.eolistener.kafka.TaskProducers;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * Sends the records of one task, by a producer of its own.
 *
 * <p>What Kafka answers is reported, not thrown: Spark would make another attempt. In a transaction
 * its records would be taken for those of the first, being of the same epoch; without one all rows
 * would be there twice. An attempt that is not the first therefore sends nothing, and reports which
 * one it is: Python ends the try then.
 */
abstract class RecordWriter implements DataWriter<InternalRow> {
  private final TaskProducers producers;
  private final List<TopicPartition> targets;
  private final int[] attempts;
  private final Map<Integer, Long> refused = new HashMap<>();
  private final boolean isFirst;
  private Map<String, String> failure = Map.of();
  private TaskProducer producer;

  /** The attempts are the number of the task, of its attempt, and of that of its stage. */
  RecordWriter(TaskProducers producers, TargetPartitions targets, int[] attempts) {
    this.producers = producers;
    this.targets = targets.all();
    this.attempts = attempts.clone();
    isFirst = attempts[1] == 0 && attempts[2] == 0;
  }

  /** Sends a record, or counts it by the reason why it goes nowhere. */
  final void send(int target, byte[] key, byte[] value, RecordHeaders headers) {
    if (target < 0) {
      refused.merge(target, 1L, Long::sum);
    } else if (sends()) {
      producer.send(targets.get(target), key, value, headers);
      if (producer.hasTooLarge()) {
        refused.merge(RowColumns.TOO_LARGE, 1L, Long::sum); // and it sends no other
      }
    }
  }

  /** Whether a record that is given now would be sent. */
  final boolean sends() {
    return isFirst && isOpened() && producer.sends();
  }

  @Override
  public WriterCommitMessage commit() {
    Map<TopicPartition, Long> sent = Map.of();
    if (producer != null && !producer.hasTooLarge()) {
      FaultPoint.reached("sink.rows-sent");
      producer.flush();
      FaultPoint.reached("sink.rows-flushed");
      sent = producer.sent();
      failure = producer.failure().orElse(Map.of());
    }
    return new TaskReport(attempts, sent, refused, failure);
  }

  @Override
  public void abort() {
    close();
  }

  @Override
  public void close() {
    TaskProducer opened = producer;
    producer = null;
    if (opened != null) {
      opened.close();
    }
  }

  /** A task without rows opens no producer. */
  private boolean isOpened() {
    if (producer == null && failure.isEmpty()) {
      try {
        producer = new TaskProducer(producers, "eo-listener-" + UUID.randomUUID());
      } catch (InterruptException killed) {
        throw killed;
      } catch (KafkaException thrown) {
        failure = TaskProducer.refused(thrown);
      }
    }
    return producer != null;
  }
}
