package io.github.eolistener.spark;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** A streaming query, running or ended, and the streams that it reads. */
public final class SparkQuery {
  private static final String KAFKA_PACKAGE = "org.apache.spark.sql.kafka010.";

  private final SparkObject execution;

  /** {@code query}: a StreamExecution, or the StreamingQueryWrapper around one. */
  public SparkQuery(Object query) {
    SparkObject given = new SparkObject(query);
    this.execution = given.tryCall("streamingQuery").orElse(given);
  }

  /** Spark's StreamExecution. */
  public SparkObject execution() {
    return execution;
  }

  /** The streams of all leaves, one that is used twice listed twice; empty before planning. */
  public List<Object> streams() {
    List<Object> streams = new ArrayList<>();
    execution
        .tryCall("sources")
        .map(SparkObject::elements)
        .ifPresent(found -> found.forEach(stream -> streams.add(stream.get())));
    return streams;
  }

  /** The streams in the order of the progress event: Spark's {@code sources().distinct()}. */
  public List<Object> distinctStreams() {
    Set<Object> distinct = new LinkedHashSet<>(streams());
    return new ArrayList<>(distinct);
  }

  /** Whether the run has ended, or its SparkContext was stopped: then no event reports its end. */
  public boolean hasEnded() {
    return !execution.call("isActive").get().equals(true)
        || execution.call("sparkSession").call("sparkContext").call("isStopped").get().equals(true);
  }

  public static boolean isKafka(Object stream) {
    return stream.getClass().getName().startsWith(KAFKA_PACKAGE);
  }
}
