package io.github.eolistener;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Partitions and positions as JSON: {@code "topics":{topic:[partition, ...]}} and {@code
 * "topics":{topic:[[partition,offset,index], ...]},"metadata":[text, ...]}.
 *
 * <p>Most partitions of a commit have the same metadata, so each text stands there once.
 */
final class Positions {
  private Positions() {}

  static List<TopicPartition> partitions(Argument argument) {
    List<TopicPartition> found = new ArrayList<>();
    each(argument, (topic, part) -> found.add(new TopicPartition(topic, (int) number(part))));
    return found;
  }

  static Map<TopicPartition, OffsetAndMetadata> read(Argument argument) {
    JsonNode texts = argument.array("metadata");
    Map<TopicPartition, OffsetAndMetadata> found = new LinkedHashMap<>();
    each(
        argument,
        (topic, part) -> {
          JsonNode text = texts.get((int) number(part.get(2)));
          if (text == null || !text.isTextual()) {
            throw bad();
          }
          found.put(
              new TopicPartition(topic, (int) number(part.get(0))),
              new OffsetAndMetadata(number(part.get(1)), text.textValue()));
        });
    return found;
  }

  /** {@code {"held":{topic:[[partition,offset,index]]},"metadata":[text]}}; null is no position. */
  static Map<String, Object> written(Map<TopicPartition, OffsetAndMetadata> positions) {
    Map<String, Integer> texts = new LinkedHashMap<>();
    Map<String, List<long[]>> held = new LinkedHashMap<>();
    positions.forEach(
        (tp, position) -> {
          if (position != null) {
            int index = texts.computeIfAbsent(position.metadata(), text -> texts.size());
            held.computeIfAbsent(tp.topic(), topic -> new ArrayList<>())
                .add(new long[] {tp.partition(), position.offset(), index});
          }
        });
    Map<String, Object> written = new LinkedHashMap<>();
    written.put("held", held);
    written.put("metadata", List.copyOf(texts.keySet()));
    return written;
  }

  private static void each(Argument argument, BiConsumer<String, JsonNode> take) {
    argument
        .object("topics")
        .fields()
        .forEachRemaining(
            topic -> {
              if (!topic.getValue().isArray()) {
                throw bad();
              }
              topic.getValue().forEach(part -> take.accept(topic.getKey(), part));
            });
  }

  private static long number(JsonNode part) {
    if (part == null || !part.canConvertToLong() || part.longValue() < 0) {
      throw bad();
    }
    return part.longValue();
  }

  private static Refusal bad() {
    return new Refusal("\"topics\" of the argument holds what is no position");
  }
}
