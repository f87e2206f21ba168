package io.github.eolistener.sink;

import io.github.eolistener.faults.FaultPoint;
import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducer;
import io.github.eolistener.kafka.TaskProducers;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * Sends the rows of one task, by a producer of its own.
 *
 * <p>What Kafka answers is reported, not thrown: Spark would make another attempt. In a transaction
 * its records would be taken for those of the first, being of the same epoch; without one all rows
 * would be there twice. An attempt that is not the first therefore sends nothing, and reports which
 * one it is: Python ends the try then.
 */
final class RowWriter implements DataWriter<InternalRow> {
  private final TaskProducers producers;
  private final List<TopicPartition> targets;
  private final int[] attempts;
  private final Map<Integer, Long> refused = new HashMap<>();
  private final boolean isFirst;
  private Map<String, String> failure = Map.of();
  private TaskProducer producer;

  /** The attempts are the number of the task, of its attempt, and of that of its stage. */
  RowWriter(TaskProducers producers, TargetPartitions targets, int[] attempts) {
    this.producers = producers;
    this.targets = targets.all();
    this.attempts = attempts.clone();
    isFirst = attempts[1] == 0 && attempts[2] == 0;
  }

  @Override
  public void write(InternalRow row) {
    int target = row.getInt(RowColumns.AT_TARGET);
    if (target < 0) {
      refused.merge(target, 1L, Long::sum);
    } else if (isFirst && isOpened() && producer.sends()) {
      producer.send(
          targets.get(target),
          row.isNullAt(RowColumns.AT_KEY) ? null : row.getBinary(RowColumns.AT_KEY),
          row.isNullAt(RowColumns.AT_VALUE) ? null : row.getBinary(RowColumns.AT_VALUE),
          row.isNullAt(RowColumns.AT_HEADERS) ? null : headers(row.getArray(RowColumns.AT_HEADERS)));
      if (producer.hasTooLarge()) {
        refused.merge(RowColumns.TOO_LARGE, 1L, Long::sum); // and it sends no other
      }
    }
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

  private static RecordHeaders headers(ArrayData given) {
    RecordHeaders headers = new RecordHeaders();
    for (int i = 0; i < given.numElements(); i++) {
      InternalRow one = given.getStruct(i, 2);
      String key = new String(one.getUTF8String(0).getBytes(), StandardCharsets.UTF_8);
      headers.add(key, one.isNullAt(1) ? null : one.getBinary(1));
    }
    return headers;
  }
}
