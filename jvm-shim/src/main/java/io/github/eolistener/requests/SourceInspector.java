package io.github.eolistener;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Tells which sources a streaming query reads, and with which reader options. */
public final class SourceInspector {
  private static final int FORMAT = 1;

  private SourceInspector() {}

  /**
   * Describes the sources of {@code query}, a StreamExecution or the StreamingQueryWrapper around
   * one, running or ended.
   *
   * <p>The answer is {@code {"v":1,"query":{"id","runId","name"},"sources":[{"index","kafka",
   * "class","options"}]}}; {@code index} counts as the progress event's {@code sources} does, and
   * {@code options} is null for a source that is not Kafka. It holds passwords: keep it out of logs.
   *
   * @throws IllegalStateException when the query has not planned its sources yet, or when Spark's
   *     objects are not as expected
   */
  public static String inspect(Object query) {
    LiveQuery live = new LiveQuery(query);
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("v", FORMAT);
    answer.put("query", identity(live.execution()));
    answer.put("sources", sources(live));
    try {
      return new ObjectMapper().writeValueAsString(answer);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException("maps, lists and texts could not be written as JSON");
    }
  }

  private static Map<String, Object> identity(LiveObject execution) {
    Map<String, Object> identity = new LinkedHashMap<>();
    identity.put("id", execution.ask("id").get().toString());
    identity.put("runId", execution.ask("runId").get().toString());
    identity.put("name", execution.find("name").map(LiveObject::get).orElse(null));
    return identity;
  }

  private static List<Map<String, Object>> sources(LiveQuery live) {
    // These first: they are set while the query's own thread builds `logicalPlan`, a lazy value
    // that must not be touched by another thread before.
    List<Object> streams = live.distinctStreams();
    if (streams.isEmpty()) {
      throw new IllegalStateException("the query has not planned its sources yet");
    }
    Map<Object, Map<String, String>> options = kafkaOptions(live.execution(), streams);
    List<Map<String, Object>> described = new ArrayList<>();
    for (Object stream : streams) {
      Map<String, Object> source = new LinkedHashMap<>();
      source.put("index", described.size());
      source.put("kafka", LiveQuery.isKafka(stream));
      source.put("class", stream.getClass().getName());
      source.put("options", options.get(stream));
      described.add(source);
    }
    return described;
  }

  private static Map<Object, Map<String, String>> kafkaOptions(
      LiveObject execution, List<Object> streams) {
    List<LiveObject> planned = leaves(execution, "logicalPlan");
    List<LiveObject> analyzed = leaves(execution, "analyzedPlan");
    Map<Object, Map<String, String>> options = new LinkedHashMap<>();
    for (int i = 0; i < planned.size(); i++) {
      Optional<Object> stream = streamOf(planned.get(i)).filter(streams::contains);
      if (stream.isPresent() && LiveQuery.isKafka(stream.get())) {
        // Spark makes the planned tree from the analyzed one leaf by leaf, so equal positions
        // mean the same source; unequal numbers mean that this is no longer so.
        LiveObject origin = planned.size() == analyzed.size() ? analyzed.get(i) : null;
        readerOptions(planned.get(i), origin)
            .map(SourceInspector::withWordOfTokens)
            .ifPresent(o -> options.put(stream.get(), o));
      }
    }
    for (Object stream : streams) {
      if (LiveQuery.isKafka(stream) && !options.containsKey(stream)) {
        throw new IllegalStateException(
            "no reader options were found for a " + stream.getClass().getName());
      }
    }
    return options;
  }

  /** No option of the source, but as much a part of how Spark gets into its cluster. */
  private static Map<String, String> withWordOfTokens(Map<String, String> options) {
    DelegationTokens.configured(options.get("kafka.bootstrap.servers"))
        .ifPresent(word -> options.put(word, "true"));
    return options;
  }

  private static List<LiveObject> leaves(LiveObject execution, String plan) {
    return execution.ask(plan).ask("collectLeaves").elements();
  }

  /** The stream of a planned leaf: {@code stream} in data source V2, {@code source} in V1. */
  private static Optional<Object> streamOf(LiveObject leaf) {
    return leaf.find("stream").or(() -> leaf.find("source")).map(LiveObject::get);
  }

  /** From Spark 4.0 the planned leaf knows its options; before, only the analyzed one does. */
  private static Optional<Map<String, String>> readerOptions(LiveObject leaf, LiveObject origin) {
    return leaf.find("relation")
        .flatMap(relation -> relation.find("options"))
        .or(() -> Optional.ofNullable(origin).flatMap(from -> from.find("extraOptions")))
        .map(LiveObject::get)
        .filter(Map.class::isInstance)
        .map(found -> lowerCased((Map<?, ?>) found));
  }

  private static Map<String, String> lowerCased(Map<?, ?> options) {
    Map<String, String> lowered = new TreeMap<>();
    options.forEach(
        (key, value) ->
            lowered.put(String.valueOf(key).toLowerCase(Locale.ROOT), String.valueOf(value)));
    return lowered;
  }
}
