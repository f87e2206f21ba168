package io.github.eolistener.sink;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** What a task says at its end: which attempt it was, what it wrote, and why not all of it. */
final class TaskReport implements WriterCommitMessage {
  private static final long serialVersionUID = 1L;

  private final int partitionId;
  private final int attempt;
  private final int stageAttempt;
  private final HashMap<String, TreeMap<Integer, Long>> records = new HashMap<>();
  private final TreeMap<Integer, Long> refused;
  private final HashMap<String, String> failure;

  TaskReport(
      int[] attempts,
      Map<TopicPartition, Long> sent,
      Map<Integer, Long> refused,
      Map<String, String> failure) {
    partitionId = attempts[0];
    attempt = attempts[1];
    stageAttempt = attempts[2];
    sent.forEach(
        (tp, count) ->
            records.computeIfAbsent(tp.topic(), t -> new TreeMap<>()).put(tp.partition(), count));
    this.refused = new TreeMap<>(refused);
    this.failure = new HashMap<>(failure);
  }

  /** As an object of the answer to Python; {@code "error"} is null where nothing has failed. */
  Map<String, Object> json() {
    Map<String, Object> json = new HashMap<>();
    json.put("partition", partitionId);
    json.put("attempt", attempt);
    json.put("stageAttempt", stageAttempt);
    json.put("records", records);
    json.put("refused", refused);
    json.put("error", failure.isEmpty() ? null : failure);
    return json;
  }
}
