package io.github.eolistener.protocol;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;

/**
 * The lines between this JVM and the bridge process, format 1; {@code
 * eo_listener/bridge/messages.py} is Python's side of it. Each line is one JSON object and may hold
 * secrets.
 */
public final class Message {
  public static final int FORMAT = 1;

  private static final ObjectMapper JSON = new ObjectMapper();

  private Message() {}

  public static String hello(String version, boolean debug, Map<String, String> conf) {
    Map<String, Object> hello = new LinkedHashMap<>();
    hello.put("v", FORMAT);
    hello.put("shim", version);
    hello.put("debug", debug);
    hello.put("conf", conf);
    return text(hello);
  }

  public static String started(UUID queryId, String runId, String name) {
    Map<String, Object> started = new LinkedHashMap<>();
    started.put("query", queryId.toString());
    started.put("run", runId);
    started.put("name", name);
    return text("started", started);
  }

  public static String progress(String json) {
    return text("progress", json);
  }

  public static String idle(String runId) {
    return text("idle", runId);
  }

  public static String ended(String runId) {
    return text("ended", runId);
  }

  public static String ping(long number) {
    return text("ping", number);
  }

  public static String answer(long number, String answer) {
    return text("answer", number, "text", answer);
  }

  public static String failure(long number, String cause) {
    return text("answer", number, "failed", cause);
  }

  public static String end(double seconds) {
    return text("end", seconds);
  }

  /** A line of the bridge; null when it is not a JSON object. */
  public static JsonNode parse(byte[] line) {
    try {
      JsonNode read = JSON.readTree(line);
      return read != null && read.isObject() ? read : null;
    } catch (IOException invalid) {
      return null;
    }
  }

  /** Of keys, each followed by its value. */
  private static String text(Object... message) {
    Map<String, Object> ordered = new LinkedHashMap<>();
    for (int i = 0; i < message.length; i += 2) {
      ordered.put((String) message[i], message[i + 1]);
    }
    return text(ordered);
  }

  private static String text(Map<String, Object> message) {
    try {
      return JSON.writeValueAsString(message);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException("maps, numbers and strings could not be written as JSON");
    }
  }
}
