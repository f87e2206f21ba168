package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class ShimProcessTest {
  private static String[] answers(String... lines) throws IOException {
    ByteArrayOutputStream written = new ByteArrayOutputStream();
    byte[] calls = String.join("\n", lines).getBytes(StandardCharsets.UTF_8);
    ShimProcess.serve(new ByteArrayInputStream(calls), written);
    return written.toString(StandardCharsets.UTF_8).split("\n");
  }

  @Test
  @DisplayName("Each line is answered by one, in their order, until the input ends")
  void lineByLine() throws IOException {
    String[] found =
        answers(
            "{\"call\":\"transactions.missing\",\"argument\":\"{}\"}",
            "{\"call\":\"groups.steal\",\"argument\":\"{}\"}");
    assertEquals(2, found.length);
    JsonNode first = new ObjectMapper().readTree(found[0]);
    assertEquals("{\"v\":1,\"missing\":null}", first.get("answer").asText());
    assertTrue(new ObjectMapper().readTree(found[1]).get("failed").asText().contains("groups.steal"));
  }

  @Test
  @DisplayName("A line that cannot be read is a failure that quotes nothing, and no end")
  void unreadable() throws IOException {
    String[] found =
        answers("{\"password\":\"hunter2\"", "7", "{\"call\":\"transactions.missing\"}");
    assertEquals(3, found.length);
    for (String one : found) {
      assertTrue(one.startsWith("{\"failed\""), one);
      assertFalse(one.contains("hunter2"), one);
    }
  }
}
