package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.eolistener.spark.SparkQuery;
import java.nio.file.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** On a real query of the Spark version that this is compiled against. */
class RunningQueryTest {
  private static SparkSession spark;

  @BeforeAll
  static void start(@TempDir Path folder) {
    spark =
        SparkSession.builder()
            .master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.warehouse.dir", folder.toString())
            .getOrCreate();
  }

  @AfterAll
  static void stop() {
    spark.stop();
  }

  @Test
  @DisplayName("A self-join of one rate source is described, running and ended")
  void selfJoin() throws Exception {
    Dataset<Row> rows = spark.readStream().format("rate").load();
    StreamingQuery query =
        rows.union(rows).writeStream().format("noop").queryName("twice").start();
    try {
      query.processAllAvailable();
      check(query);
      assertFalse(new SparkQuery(query).hasEnded());
    } finally {
      query.stop();
    }
    check(query);
    assertTrue(new SparkQuery(query).hasEnded());
  }

  private static void check(StreamingQuery query) throws Exception {
    JsonNode answer = new ObjectMapper().readTree(SourceInspector.inspect(query));
    assertEquals(query.runId().toString(), answer.at("/query/runId").asText());
    assertEquals("twice", answer.at("/query/name").asText());
    assertEquals(query.lastProgress().sources().length, answer.get("sources").size());
    assertFalse(answer.at("/sources/0/kafka").asBoolean());
    JsonNode position = new ObjectMapper().readTree(PositionInspector.inspect(query));
    assertEquals("MICRO_BATCH", position.get("mode").asText());
    assertTrue(position.get("restored").asBoolean());
    assertTrue(position.get("batch").asLong() >= 0);
    assertEquals(0, position.get("sources").size());
  }
}
