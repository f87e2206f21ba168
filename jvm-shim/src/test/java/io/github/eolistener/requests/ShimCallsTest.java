package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.NullSource;
import org.junit.jupiter.params.provider.ValueSource;

class ShimCallsTest {
  private static final String COMMIT =
      "{\"client\":\"%s\",\"properties\":{%s},\"timeoutMs\":%d,\"group\":\"g\","
          + "\"metadata\":[\"m\"],\"topics\":{\"t\":[[0,5,0]]}}";

  private static String refused(String what, String argument) {
    IllegalStateException error =
        assertThrows(IllegalStateException.class, () -> ShimCalls.call(what, argument));
    assertNull(error.getCause(), "a cause brings its message along");
    return error.getMessage();
  }

  private static JsonNode answer(String what, String argument) throws IOException {
    JsonNode answer = new ObjectMapper().readTree(ShimCalls.call(what, argument));
    assertEquals(1, answer.get("v").asInt());
    return answer;
  }

  @ParameterizedTest
  @DisplayName("An unknown call is refused with the likely cause")
  @NullSource
  @ValueSource(strings = {"", "groups.steal", "stores"})
  void unknown(String what) {
    assertTrue(refused(what, "{}").contains("of another version"));
  }

  @ParameterizedTest
  @DisplayName("An argument that is not a JSON object is refused, and not quoted")
  @NullSource
  @ValueSource(strings = {"", "null", "[1]", "{\"password\":\"hunter2\"", "\"hunter2\""})
  void notAnObject(String argument) {
    assertEquals("the argument must be a JSON object", refused("stores.pem", argument));
  }

  @ParameterizedTest
  @DisplayName("A part of the argument that is missing or of the wrong kind is named, not quoted")
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "stores.pem | {} | location",
        "stores.pem | {\"location\":7} | location",
        "stores.pem | {\"location\":\"x\",\"password\":[\"hunter2\"]} | password",
        "groups.snapshot | {} | group",
        "groups.snapshot | {\"group\":\"g\"} | topics",
        "groups.snapshot | {\"group\":\"g\",\"topics\":[[\"t\",0]]} | topics",
        "groups.snapshot | {\"group\":\"g\",\"topics\":{\"t\":{\"0\":5}}} | topics",
        "groups.commit | {\"group\":\"g\"} | metadata",
        "groups.snapshot | {\"group\":\"g\",\"topics\":{}} | timeoutMs",
        "transactions.producers | {\"topics\":7} | topics",
        "transactions.describe | {\"transactionalIds\":[7]} | transactionalIds",
        "transactions.list | {\"producers\":[\"hunter2\"]} | producers",
        "groups.snapshot | {\"group\":\"g\",\"topics\":{},\"timeoutMs\":0} | timeoutMs",
        "groups.snapshot | {\"group\":\"g\",\"topics\":{},\"timeoutMs\":1} | client",
        "groups.snapshot | {\"group\":\"g\",\"topics\":{},\"timeoutMs\":1"
            + ",\"client\":\"a\"} | properties",
        "groups.snapshot | {\"group\":\"g\",\"topics\":{},\"timeoutMs\":1"
            + ",\"client\":\"a\",\"properties\":{\"x\":[\"hunter2\"]}} | properties",
      })
  void badArgument(String what, String argument, String named) {
    String message = refused(what, argument);
    assertTrue(message.contains("\"" + named + "\""), message);
    assertFalse(message.contains("hunter2"), message);
  }

  @ParameterizedTest
  @DisplayName("An invalid position is refused before anything is sent")
  @ValueSource(strings = {"[0,5]", "[0,-1,0]", "[0,5,7]", "[\"x\",5,0]", "7", "[0,1e30,0]"})
  void badPosition(String position) {
    String argument = String.format(COMMIT, "p", "", 1000).replace("[0,5,0]", position);
    assertTrue(refused("groups.commit", argument).contains("has an invalid partition or position"));
  }

  @ParameterizedTest
  @DisplayName("Without a broker a request ends by its deadline, its outcome unknown")
  @ValueSource(strings = {"groups.commit", "groups.snapshot"})
  void noBroker(String what) throws IOException {
    long began = System.nanoTime();
    String argument = String.format(COMMIT, "n", "\"bootstrap.servers\":\"127.0.0.1:1\"", 700);
    JsonNode error =
        answer(what, what.endsWith("snapshot") ? argument.replace("[[0,5,0]]", "[0]") : argument)
            .get("error");
    assertTrue(System.nanoTime() - began < 3_000_000_000L);
    assertEquals("REQUEST_TIMED_OUT", error.get("code").asText());
    assertEquals("no broker could be reached", error.get("cause").asText());
    assertEquals(1, answer("groups.close", "{\"client\":\"n\"}").get("closed").asInt());
    assertEquals(0, answer("groups.close", "{\"client\":\"n\"}").get("closed").asInt());
  }

  @Test
  @DisplayName("Settings that the Kafka client rejects are named without their values")
  void settings() throws IOException {
    String bad =
        "\"bootstrap.servers\":\"127.0.0.1:1\",\"sasl.login.refresh.window.factor\":\"hunter2\"";
    JsonNode error = answer("groups.commit", String.format(COMMIT, "s", bad, 500)).get("error");
    assertEquals("_INVALID_ARG", error.get("code").asText());
    assertTrue(error.get("cause").asText().contains("sasl.login.refresh.window.factor"));
    assertFalse(error.toString().contains("hunter2"));
    assertEquals(1, answer("groups.close", "{\"client\":null}").get("closed").asInt());
  }

  @Test
  @DisplayName("A login that fails is an authentication error, and names no secret")
  void login() throws IOException {
    String bad =
        "\"bootstrap.servers\":\"127.0.0.1:1\",\"security.protocol\":\"SASL_PLAINTEXT\","
            + "\"sasl.mechanism\":\"PLAIN\",\"sasl.jaas.config\":\"no.such.Module required"
            + " password='hunter2';\"";
    JsonNode error = answer("groups.commit", String.format(COMMIT, "l", bad, 500)).get("error");
    assertEquals("_AUTHENTICATION", error.get("code").asText());
    assertFalse(error.toString().contains("hunter2"));
    assertEquals(1, answer("groups.close", "{\"client\":\"l\"}").get("closed").asInt());
  }

  @Test
  @DisplayName("A host name that cannot be resolved is an error of its own")
  void noName() throws IOException {
    String bad = "\"bootstrap.servers\":\"nosuch.invalid:9092\"";
    JsonNode error = answer("groups.commit", String.format(COMMIT, "d", bad, 500)).get("error");
    assertEquals("_RESOLVE", error.get("code").asText());
    assertEquals(1, answer("groups.close", "{\"client\":\"d\"}").get("closed").asInt());
  }
}
