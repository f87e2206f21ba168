package io.github.eolistener;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The lines between this JVM and the bridge, format 1; Python's side of it is {@code
 * eo_listener/bridge/messages.py}. Each is one JSON object. They may hold secrets.
 */
final class Message {
  static final int FORMAT = 1;

  private static final ObjectMapper JSON = new ObjectMapper();

  private Message() {}

  static String hello(String version, boolean debug, Map<String, String> conf) {
    Map<String, Object> hello = new LinkedHashMap<>();
    hello.put("v", FORMAT);
    hello.put("shim", version);
    hello.put("debug", debug);
    hello.put("conf", conf);
    return text(hello);
  }

  static String started(Run run) {
    Map<String, Object> started = new LinkedHashMap<>();
    started.put("query", run.queryId.toString());
    started.put("run", run.runId);
    started.put("name", run.name);
    return text("started", started);
  }

  static String progress(String json) {
    return text("progress", json);
  }

  static String ended(String runId) {
    return text("ended", runId);
  }

  static String ping(long number) {
    return text("ping", number);
  }

  static String answer(long number, String answer) {
    return text("answer", number, "text", answer);
  }

  static String failure(long number, String why) {
    return text("answer", number, "failed", why);
  }

  static String end(double seconds) {
    return text("end", seconds);
  }

  /** What a line of the bridge says; null when it is none. */
  static JsonNode parse(byte[] line) {
    try {
      JsonNode read = JSON.readTree(line);
      return read != null && read.isObject() ? read : null;
    } catch (java.io.IOException garbage) {
      return null;
    }
  }

  /** Of keys, each before its value. */
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
      throw new IllegalStateException("maps, numbers and texts could not be written as JSON");
    }
  }
}
