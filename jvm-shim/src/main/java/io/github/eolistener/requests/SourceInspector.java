package io.github.eolistener.requests;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.eolistener.spark.DelegationTokens;
import io.github.eolistener.spark.SparkObject;
import io.github.eolistener.spark.SparkQuery;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Returns the sources that a streaming query reads, with their reader options. */
public final class SourceInspector {
  private static final int FORMAT = 1;

  private SourceInspector() {}

  /**
   * Describes the sources of {@code query}, a StreamExecution or the StreamingQueryWrapper around
   * one, running or ended.
   *
   * <p>The answer is {@code {"v":1,"query":{"id","runId","name"},"sources":[{"index","kafka",
   * "class","options"}]}}; {@code index} counts as the progress event's {@code sources} does, and
   * {@code options} is null for a source that is not Kafka. It holds passwords: keep it out of
   * logs.
   *
   * @throws IllegalStateException when the query has not planned its sources yet, or when Spark's
   *     objects are not as expected
   */
  public static String inspect(Object query) {
    SparkQuery spark = new SparkQuery(query);
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("v", FORMAT);
    answer.put("query", identity(spark.execution()));
    answer.put("sources", sources(spark));
    try {
      return new ObjectMapper().writeValueAsString(answer);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException("maps, lists and strings could not be written as JSON");
    }
  }

  private static Map<String, Object> identity(SparkObject execution) {
    Map<String, Object> identity = new LinkedHashMap<>();
    identity.put("id", execution.call("id").get().toString());
    identity.put("runId", execution.call("runId").get().toString());
    identity.put("name", execution.tryCall("name").map(SparkObject::get).orElse(null));
    return identity;
  }

  private static List<Map<String, Object>> sources(SparkQuery spark) {
    // These first: they are set while the query's own thread computes `logicalPlan`, a lazy value
    // that no other thread may touch before.
    List<Object> streams = spark.distinctStreams();
    if (streams.isEmpty()) {
      throw new IllegalStateException("the query has not planned its sources yet");
    }
    Map<Object, Map<String, String>> options = kafkaOptions(spark.execution(), streams);
    List<Map<String, Object>> described = new ArrayList<>();
    for (Object stream : streams) {
      Map<String, Object> source = new LinkedHashMap<>();
      source.put("index", described.size());
      source.put("kafka", SparkQuery.isKafka(stream));
      source.put("class", stream.getClass().getName());
      source.put("options", options.get(stream));
      described.add(source);
    }
    return described;
  }

  private static Map<Object, Map<String, String>> kafkaOptions(
      SparkObject execution, List<Object> streams) {
    List<SparkObject> planned = leaves(execution, "logicalPlan");
    List<SparkObject> analyzed = leaves(execution, "analyzedPlan");
    Map<Object, Map<String, String>> options = new LinkedHashMap<>();
    for (int i = 0; i < planned.size(); i++) {
      Optional<Object> stream = streamOf(planned.get(i)).filter(streams::contains);
      if (stream.isPresent() && SparkQuery.isKafka(stream.get())) {
        // Spark derives the planned tree from the analyzed one leaf by leaf, so equal positions
        // mean the same source; unequal numbers of leaves mean that this does not hold.
        SparkObject origin = planned.size() == analyzed.size() ? analyzed.get(i) : null;
        readerOptions(planned.get(i), origin)
            .map(SourceInspector::withTokenSetting)
            .ifPresent(o -> options.put(stream.get(), o));
      }
    }
    for (Object stream : streams) {
      if (SparkQuery.isKafka(stream) && !options.containsKey(stream)) {
        throw new IllegalStateException(
            "no reader options were found for a " + stream.getClass().getName());
      }
    }
    return options;
  }

  /** Not an option of the source, but a part of how Spark authenticates to its cluster. */
  private static Map<String, String> withTokenSetting(Map<String, String> options) {
    DelegationTokens.configured(options.get("kafka.bootstrap.servers"))
        .ifPresent(setting -> options.put(setting, "true"));
    return options;
  }

  private static List<SparkObject> leaves(SparkObject execution, String plan) {
    return execution.call(plan).call("collectLeaves").elements();
  }

  /** The stream of a planned leaf: {@code stream} in data source V2, {@code source} in V1. */
  private static Optional<Object> streamOf(SparkObject leaf) {
    return leaf.tryCall("stream").or(() -> leaf.tryCall("source")).map(SparkObject::get);
  }

  /** From Spark 4.0 the planned leaf has its options; before, only the analyzed leaf has them. */
  private static Optional<Map<String, String>> readerOptions(SparkObject leaf, SparkObject origin) {
    return leaf.tryCall("relation")
        .flatMap(relation -> relation.tryCall("options"))
        .or(() -> Optional.ofNullable(origin).flatMap(from -> from.tryCall("extraOptions")))
        .map(SparkObject::get)
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
