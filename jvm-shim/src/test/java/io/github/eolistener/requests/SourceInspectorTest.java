package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.kafka010.StreamDouble;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class SourceInspectorTest {
  private static final Map<String, String> A = Map.of("subscribe", "a", "eo.commit.group", "g-a");
  private static final Map<String, String> B = Map.of("subscribe", "b", "eo.commit.group", "g-b");

  private final Object first = new StreamDouble();
  private final Object second = new StreamDouble();
  private final Object rate = new Object();

  private static JsonNode inspect(Object query) throws IOException {
    return new ObjectMapper().readTree(SourceInspector.inspect(query));
  }

  private static QueryDouble.Analyzed analyzed(Map<String, String> options) {
    return new QueryDouble.Analyzed(options);
  }

  private QueryDouble oneSource(Map<String, String> options) {
    return new QueryDouble(
        "flights",
        List.of(first),
        List.of(new QueryDouble.Planned(first, options)),
        List.of(analyzed(options)));
  }

  @Test
  @DisplayName("The answer names the format, the query and its run")
  void namesTheQuery() throws IOException {
    JsonNode answer = inspect(oneSource(A));
    assertEquals(1, answer.get("v").asInt());
    assertEquals(QueryDouble.ID.toString(), answer.at("/query/id").asText());
    assertEquals(QueryDouble.RUN_ID.toString(), answer.at("/query/runId").asText());
    assertEquals("flights", answer.at("/query/name").asText());
  }

  @Test
  @DisplayName("A StreamingQueryWrapper is described as the query that it wraps")
  void looksThroughTheWrapper() throws IOException {
    QueryDouble query = oneSource(A);
    assertEquals(inspect(query), inspect(new QueryDouble.Wrapper(query)));
  }

  @Test
  @DisplayName("A query without a name has null there")
  void unnamedQuery() throws IOException {
    QueryDouble query =
        new QueryDouble(
            null,
            List.of(first),
            List.of(new QueryDouble.Planned(first, A)),
            List.of(analyzed(A)));
    assertTrue(inspect(query).at("/query/name").isNull());
  }

  @Test
  @DisplayName("Spark 4: the options come from the planned leaf's own relation")
  void optionsOfSpark4() throws IOException {
    QueryDouble query =
        new QueryDouble(
            "q",
            List.of(first, second),
            List.of(new QueryDouble.Planned(second, B), new QueryDouble.Planned(first, A)),
            List.of()); // so that nothing can come from here
    JsonNode sources = inspect(query).get("sources");
    assertEquals("a", sources.at("/0/options/subscribe").asText());
    assertEquals("b", sources.at("/1/options/subscribe").asText());
  }

  @Test
  @DisplayName("Spark 3.5: the options come from the analyzed leaf at the same position")
  void optionsOfSpark3() throws IOException {
    QueryDouble query =
        new QueryDouble(
            "q",
            List.of(first, second),
            List.of(
                new QueryDouble.Static(),
                new QueryDouble.PlannedBefore4(second),
                new QueryDouble.PlannedV1(first)),
            List.of(new QueryDouble.Static(), analyzed(B), analyzed(A)));
    JsonNode sources = inspect(query).get("sources");
    assertEquals("a", sources.at("/0/options/subscribe").asText());
    assertEquals("b", sources.at("/1/options/subscribe").asText());
    assertEquals(2, sources.size());
  }

  @Test
  @DisplayName("Spark 3.5: leaves that cannot be matched are an error, not a guess")
  void unequalLeaves() {
    QueryDouble query =
        new QueryDouble(
            "q",
            List.of(first),
            List.of(new QueryDouble.PlannedBefore4(first)),
            List.of(analyzed(A), analyzed(B)));
    IllegalStateException error =
        assertThrows(IllegalStateException.class, () -> SourceInspector.inspect(query));
    assertTrue(error.getMessage().contains("no reader options"), error.getMessage());
  }

  @Test
  @DisplayName("A source used twice counts once, as in the progress event")
  void selfJoin() throws IOException {
    QueryDouble query =
        new QueryDouble(
            "q",
            List.of(first, first, second),
            List.of(
                new QueryDouble.Planned(first, A),
                new QueryDouble.Planned(first, A),
                new QueryDouble.Planned(second, B)),
            List.of(analyzed(A), analyzed(A), analyzed(B)));
    JsonNode sources = inspect(query).get("sources");
    assertEquals(2, sources.size());
    assertEquals(1, sources.at("/1/index").asInt());
    assertEquals("b", sources.at("/1/options/subscribe").asText());
  }

  @Test
  @DisplayName("A source that is not Kafka keeps its index and shows no options")
  void otherSources() throws IOException {
    QueryDouble query =
        new QueryDouble(
            "q",
            List.of(rate, first),
            List.of(
                new QueryDouble.Planned(rate, Map.of("password", "hidden")),
                new QueryDouble.Planned(first, A)),
            List.of(analyzed(B), analyzed(A)));
    JsonNode sources = inspect(query).get("sources");
    assertFalse(sources.at("/0/kafka").asBoolean());
    assertTrue(sources.at("/0/options").isNull());
    assertEquals("java.lang.Object", sources.at("/0/class").asText());
    assertTrue(sources.at("/1/kafka").asBoolean());
    assertEquals("a", sources.at("/1/options/subscribe").asText());
  }

  @Test
  @DisplayName("Keys are lower-cased and values keep any characters")
  void escaping() throws IOException {
    String jaas = "Module required password=\"a\\b\u0001\u00fc\ud83d\ude00\";\n\t";
    JsonNode options =
        inspect(oneSource(Map.of("kafka.SASL.jaas.config", jaas))).at("/sources/0/options");
    assertEquals(jaas, options.get("kafka.sasl.jaas.config").asText());
  }

  @Test
  @DisplayName("Before the query has planned its sources, its lazy plan is not read")
  void tooEarly() {
    QueryDouble query = new QueryDouble("q", null, List.of(), List.of());
    IllegalStateException error =
        assertThrows(IllegalStateException.class, () -> SourceInspector.inspect(query));
    assertTrue(error.getMessage().contains("not planned"), error.getMessage());
  }

  @Test
  @DisplayName("No message and no cause of an error holds an option's value")
  void secretsStayOut() {
    QueryDouble query = oneSource(Map.of("broken", "yes", "password", "hunter2"));
    IllegalStateException error =
        assertThrows(IllegalStateException.class, () -> SourceInspector.inspect(query));
    assertTrue(error.getMessage().contains("IllegalArgumentException"), error.getMessage());
    for (Throwable t = error; t != null; t = t.getCause()) {
      assertFalse(t.toString().contains("hunter2"), t.toString());
    }
  }

  @Test
  @DisplayName("An object that is not a query is refused")
  void notAQuery() {
    assertThrows(IllegalStateException.class, () -> SourceInspector.inspect("text"));
  }
}
