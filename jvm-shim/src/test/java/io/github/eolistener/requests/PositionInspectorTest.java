package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.kafka010.StreamDouble;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class PositionInspectorTest {
  private static final String A = "{\"a\":{\"0\":5}}";
  private static final String B = "{\"b\":{\"0\":7}}";
  private static final String LATER = "{\"a\":{\"0\":9}}";

  private final Object first = new StreamDouble();
  private final Object second = new StreamDouble();
  private final Object rate = new Object();

  private static String inspect(Object query) {
    String answer = PositionInspector.inspect(query);
    try {
      JsonNode read = new ObjectMapper().readTree(answer);
      assertEquals(1, read.get("v").asInt());
      StringBuilder brief = new StringBuilder(read.get("mode").asText());
      if (!read.get("restored").asBoolean()) {
        assertEquals(0, read.get("sources").size());
        return brief.append(" unknown").toString();
      }
      brief.append(' ').append(read.get("batch").asLong());
      for (JsonNode source : read.get("sources")) {
        brief.append(' ').append(source.get("index").asInt());
        brief.append(source.get("offsets").asText());
      }
      return brief.toString();
    } catch (IOException broken) {
      throw new AssertionError(answer, broken);
    }
  }

  private static PositionDouble.Progress progress(Object stream, String json) {
    return new PositionDouble.Progress().with(stream, json);
  }

  private <T extends PositionDouble.Execution> T reading(T query, Object... streams) {
    query.streams = List.of(streams);
    return query;
  }

  private PositionDouble.MicroBatchExecution spark3(long batch, PositionDouble.Progress committed) {
    PositionDouble.MicroBatchExecution query =
        reading(new PositionDouble.MicroBatchExecution(), first);
    query.batch = batch;
    query.committed = committed;
    return query;
  }

  private PositionDouble.Spark4.MicroBatchExecution spark4(
      long batch, PositionDouble.Progress start, PositionDouble.Progress committed) {
    PositionDouble.Spark4.MicroBatchExecution query =
        reading(new PositionDouble.Spark4.MicroBatchExecution(), first);
    query.context.batch = batch;
    query.context.start = start;
    query.committed = committed;
    return query;
  }

  @Test
  @DisplayName("Spark 3.5: the offsets are those of the batch before the current one")
  void spark3() {
    assertEquals("MICRO_BATCH 6 0" + A, inspect(spark3(7, progress(first, A))));
  }

  @Test
  @DisplayName("Spark 4: offsets as the batch began with are those of the batch before")
  void spark4Running() {
    PositionDouble.Progress offsets = progress(first, A);
    assertEquals("MICRO_BATCH 6 0" + A, inspect(spark4(7, progress(first, A), offsets)));
  }

  @Test
  @DisplayName("Spark 4: other offsets than the batch began with are its end")
  void spark4Ended() {
    PositionDouble.Progress offsets = progress(first, LATER);
    assertEquals("MICRO_BATCH 7 0" + LATER, inspect(spark4(7, progress(first, A), offsets)));
  }

  @Test
  @DisplayName("Before the sources are planned the position is unknown, and no lazy value is read")
  void notPlanned() {
    PositionDouble.MicroBatchExecution query = new PositionDouble.MicroBatchExecution();
    query.batch = -1;
    query.lazyValuesAreComputed = false;
    assertEquals("MICRO_BATCH unknown", inspect(query));
  }

  @Test
  @DisplayName("Spark 3.5: while it restores step by step, the position is unknown")
  void spark3Restoring() {
    PositionDouble.MicroBatchExecution query = spark3(8, progress(first, A)); // of batch 6
    query.message = "Initializing sources";
    assertEquals("MICRO_BATCH unknown", inspect(query));
    assertEquals("MICRO_BATCH unknown", inspect(spark3(8, new PositionDouble.Progress())));
    assertEquals("MICRO_BATCH unknown", inspect(spark3(-1, new PositionDouble.Progress())));
  }

  @Test
  @DisplayName("Spark 4: without offsets the position is unknown until the query has started")
  void spark4Restoring() {
    PositionDouble.Progress none = new PositionDouble.Progress();
    PositionDouble.Spark4.MicroBatchExecution query = spark4(0, none, none);
    query.message = "Initializing StreamExecution";
    assertEquals("MICRO_BATCH unknown", inspect(query));
    assertEquals("MICRO_BATCH unknown", inspect(spark4(8, progress(first, A), none)));
  }

  @Test
  @DisplayName("Spark 4: each batch begins with that status; its position is known")
  void spark4NextBatch() {
    PositionDouble.Progress offsets = progress(first, A);
    PositionDouble.Spark4.MicroBatchExecution query = spark4(7, offsets, offsets);
    query.message = "Initializing StreamExecution";
    assertEquals("MICRO_BATCH 6 0" + A, inspect(query));
  }

  @Test
  @DisplayName("A query that has run no batch yet is at batch -1, without sources")
  void fresh() {
    PositionDouble.Progress none = new PositionDouble.Progress();
    assertEquals("MICRO_BATCH -1", inspect(spark3(0, none)));
    assertEquals("MICRO_BATCH -1", inspect(spark4(0, none, none)));
    assertEquals(
        "CONTINUOUS -1", inspect(reading(new PositionDouble.ContinuousExecution(), first)));
  }

  @Test
  @DisplayName("A source used twice counts once; other kinds keep their index and are left out")
  void indices() {
    PositionDouble.MicroBatchExecution query =
        reading(new PositionDouble.MicroBatchExecution(), first, first, rate, second);
    query.batch = 1;
    query.committed = progress(second, B).with(rate, "3").with(first, A);
    assertEquals("MICRO_BATCH 0 0" + A + " 2" + B, inspect(query));
  }

  private <T extends PositionDouble.Execution> T logged(T query) {
    query.streams = List.of(first, first, rate, second);
    query.committed = progress(first, LATER);
    query.offsetLog.with(3, new PositionDouble.OffsetSeq(A, A, "3", null));
    query.offsetLog.with(5, new PositionDouble.OffsetSeq(A, A, "4", B));
    query.offsetLog.with(9, new PositionDouble.OffsetSeq(LATER, LATER, "5", B));
    return query;
  }

  @Test
  @DisplayName("Asynchronous: what counts is the newest batch that is in both logs on disk")
  void asynchronous() {
    PositionDouble.AsyncProgressTrackingMicroBatchExecution query =
        logged(new PositionDouble.AsyncProgressTrackingMicroBatchExecution());
    assertEquals("ASYNC_PROGRESS -1", inspect(query));
    query.commitLog.with(3, "");
    assertEquals("ASYNC_PROGRESS 3 0" + A, inspect(query));
    query.commitLog.with(5, "").with(7, "");
    assertEquals("ASYNC_PROGRESS 5 0" + A + " 2" + B, inspect(query));
  }

  @Test
  @DisplayName("Asynchronous: before the first batch the logs, lazy values, are not read")
  void asynchronousFresh() {
    PositionDouble.AsyncProgressTrackingMicroBatchExecution query =
        reading(new PositionDouble.AsyncProgressTrackingMicroBatchExecution(), first);
    query.lazyValuesAreComputed = false;
    assertEquals("ASYNC_PROGRESS -1", inspect(query));
  }

  @Test
  @DisplayName("Asynchronous: offsets that are logged by the names of their sources are found")
  void named() {
    PositionDouble.NamedAsync.AsyncProgressTrackingMicroBatchExecution query =
        logged(new PositionDouble.NamedAsync.AsyncProgressTrackingMicroBatchExecution());
    query.names.withStream("s1", second).withStream("s0", first).withStream("s2", rate);
    PositionDouble.Progress named = new PositionDouble.Progress();
    named.withOption("s0", A).withOption("s1", B).withOption("s2", null);
    query.offsetLog.with(11, new PositionDouble.OffsetMap(named));
    query.commitLog.with(11, "");
    assertEquals("ASYNC_PROGRESS 11 0" + A + " 2" + B, inspect(query));
  }

  @Test
  @DisplayName("Continuous: the logs on disk count, not the current epoch")
  void continuous() {
    PositionDouble.ContinuousExecution query = logged(new PositionDouble.ContinuousExecution());
    query.commitLog.with(3, "").with(5, "");
    assertEquals("CONTINUOUS 5 0" + A + " 2" + B, inspect(query));
  }

  @Test
  @DisplayName("The mode follows from the simple names of class and trigger")
  void modes() {
    PositionDouble.MicroBatchExecution query = spark3(7, progress(first, A));
    query.trigger = new PositionDouble.RealTimeTrigger();
    assertEquals("REAL_TIME 6 0" + A, inspect(query));
    query.trigger = null;
    assertEquals("MICRO_BATCH 6 0" + A, inspect(query));
    assertEquals("MICRO_BATCH unknown", inspect(new PositionDouble.PlatformExecution()));
  }

  @Test
  @DisplayName("An unknown kind of query, and any other object, are refused; the class is named")
  void unknown() {
    for (Object query : List.of(new PositionDouble.OtherExecution(), "text")) {
      IllegalStateException error =
          assertThrows(IllegalStateException.class, () -> PositionInspector.inspect(query));
      assertTrue(error.getMessage().contains(query.getClass().getName()), error.getMessage());
    }
  }
}
