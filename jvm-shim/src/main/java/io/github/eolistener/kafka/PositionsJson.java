package io.github.eolistener.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.RefusedException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Partitions and committed positions as JSON: {@code "topics":{topic:[partition, ...]}} and {@code
 * "topics":{topic:[[partition,offset,index], ...]},"metadata":[text, ...]}.
 *
 * <p>Most partitions of a commit have the same metadata, so each text is listed once.
 */
final class PositionsJson {
  private PositionsJson() {}

  static List<TopicPartition> partitions(CallArguments arguments) {
    List<TopicPartition> found = new ArrayList<>();
    each(arguments, (topic, part) -> found.add(new TopicPartition(topic, (int) number(part))));
    return found;
  }

  static Map<TopicPartition, OffsetAndMetadata> positions(CallArguments arguments) {
    JsonNode texts = arguments.array("metadata");
    Map<TopicPartition, OffsetAndMetadata> found = new LinkedHashMap<>();
    each(
        arguments,
        (topic, part) -> {
          JsonNode text = texts.get((int) number(part.get(2)));
          if (text == null || !text.isTextual()) {
            throw invalid();
          }
          found.put(
              new TopicPartition(topic, (int) number(part.get(0))),
              new OffsetAndMetadata(number(part.get(1)), text.textValue()));
        });
    return found;
  }

  /** {@code {"committed":{topic:[[partition,offset,index]]},"metadata":[text]}}, without nulls. */
  static Map<String, Object> committed(Map<TopicPartition, OffsetAndMetadata> positions) {
    Map<String, Integer> texts = new LinkedHashMap<>();
    Map<String, List<long[]>> topics = new LinkedHashMap<>();
    positions.forEach(
        (tp, position) -> {
          if (position != null) {
            int index = texts.computeIfAbsent(position.metadata(), text -> texts.size());
            topics.computeIfAbsent(tp.topic(), topic -> new ArrayList<>())
                .add(new long[] {tp.partition(), position.offset(), index});
          }
        });
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("committed", topics);
    answer.put("metadata", List.copyOf(texts.keySet()));
    return answer;
  }

  private static void each(CallArguments arguments, BiConsumer<String, JsonNode> take) {
    arguments
        .object("topics")
        .fields()
        .forEachRemaining(
            topic -> {
              if (!topic.getValue().isArray()) {
                throw invalid();
              }
              topic.getValue().forEach(part -> take.accept(topic.getKey(), part));
            });
  }

  private static long number(JsonNode part) {
    if (part == null || !part.canConvertToLong() || part.longValue() < 0) {
      throw invalid();
    }
    return part.longValue();
  }

  private static RefusedException invalid() {
    return new RefusedException("the argument \"topics\" has an invalid partition or position");
  }
}
