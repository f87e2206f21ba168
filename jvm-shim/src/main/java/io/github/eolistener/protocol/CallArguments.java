package io.github.eolistener.protocol;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** The arguments of a call, a JSON object. They may hold secrets, so no error quotes a value. */
public final class CallArguments {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final JsonNode object;

  private CallArguments(JsonNode object) {
    this.object = object;
  }

  public static CallArguments of(String text) {
    JsonNode read;
    try {
      read = text == null ? null : JSON.readTree(text);
    } catch (JsonProcessingException unreadable) { // its message quotes the text
      read = null;
    }
    if (read == null || !read.isObject()) {
      throw new RefusedException("the argument must be a JSON object");
    }
    return new CallArguments(read);
  }

  public String text(String name) {
    return find(name).orElseThrow(() -> invalid(name, "a string"));
  }

  /** The string {@code name}; empty where it is missing or null. */
  public Optional<String> find(String name) {
    JsonNode found = object.get(name);
    if (found == null || found.isNull()) {
      return Optional.empty();
    }
    if (!found.isTextual()) {
      throw invalid(name, "a string");
    }
    return Optional.of(found.textValue());
  }

  /** The positive number {@code name}. */
  public int number(String name) {
    JsonNode found = object.get(name);
    if (found == null || !found.canConvertToInt() || found.intValue() <= 0) {
      throw invalid(name, "a positive number");
    }
    return found.intValue();
  }

  /** The number {@code name}, zero or more. */
  public long whole(String name) {
    JsonNode found = object.get(name);
    if (found == null || !found.canConvertToLong() || !found.isIntegralNumber()
        || found.longValue() < 0) {
      throw invalid(name, "a number from zero on");
    }
    return found.longValue();
  }

  /** The object {@code name}, whose values are strings. */
  public Map<String, String> texts(String name) {
    Map<String, String> texts = new LinkedHashMap<>();
    object(name)
        .fields()
        .forEachRemaining(
            entry -> {
              if (!entry.getValue().isTextual()) {
                throw invalid(name, "an object of strings");
              }
              texts.put(entry.getKey(), entry.getValue().textValue());
            });
    return texts;
  }

  /** The object {@code name}. */
  public JsonNode object(String name) {
    JsonNode found = object.get(name);
    if (found == null || !found.isObject()) {
      throw invalid(name, "an object");
    }
    return found;
  }

  /** The array {@code name}. */
  public JsonNode array(String name) {
    JsonNode found = object.get(name);
    if (found == null || !found.isArray()) {
      throw invalid(name, "an array");
    }
    return found;
  }

  private static RefusedException invalid(String name, String kind) {
    return new RefusedException("the argument \"" + name + "\" must be " + kind);
  }
}
