package io.github.eolistener;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** A streaming query, running or ended, and the streams that it reads. */
final class LiveQuery {
  private static final String KAFKA_PACKAGE = "org.apache.spark.sql.kafka010.";

  private final LiveObject execution;

  /** Of a StreamExecution, or of the StreamingQueryWrapper around one. */
  LiveQuery(Object query) {
    LiveObject given = new LiveObject(query);
    this.execution = given.find("streamingQuery").orElse(given);
  }

  /** Spark's StreamExecution. */
  LiveObject execution() {
    return execution;
  }

  /** The streams of the leaves, one used twice standing there twice; none before they are planned. */
  List<Object> streams() {
    List<Object> streams = new ArrayList<>();
    execution
        .find("sources")
        .map(LiveObject::elements)
        .ifPresent(found -> found.forEach(stream -> streams.add(stream.get())));
    return streams;
  }

  /** The streams in the order of the progress event: Spark's {@code sources().distinct()}. */
  List<Object> distinctStreams() {
    Set<Object> distinct = new LinkedHashSet<>(streams());
    return new ArrayList<>(distinct);
  }

  /** Whether the run is over, or its SparkContext was stopped: then nobody is told of its end. */
  boolean hasEnded() {
    return !execution.ask("isActive").get().equals(true)
        || execution.ask("sparkSession").ask("sparkContext").ask("isStopped").get().equals(true);
  }

  static boolean isKafka(Object stream) {
    return stream.getClass().getName().startsWith(KAFKA_PACKAGE);
  }
}
