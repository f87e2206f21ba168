package io.github.eolistener;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** The argument of a call: a JSON object. It may hold secrets, so no error quotes a value. */
final class Argument {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final JsonNode object;

  private Argument(JsonNode object) {
    this.object = object;
  }

  static Argument of(String text) {
    JsonNode read;
    try {
      read = text == null ? null : JSON.readTree(text);
    } catch (JsonProcessingException unreadable) { // its message quotes the text
      read = null;
    }
    if (read == null || !read.isObject()) {
      throw new Refusal("the argument is no JSON object");
    }
    return new Argument(read);
  }

  String text(String name) {
    return find(name).orElseThrow(() -> new Refusal("the argument has no text \"" + name + "\""));
  }

  /** The text {@code name}; empty where there is none, or null. */
  Optional<String> find(String name) {
    JsonNode found = object.get(name);
    if (found == null || found.isNull()) {
      return Optional.empty();
    }
    if (!found.isTextual()) {
      throw new Refusal("\"" + name + "\" of the argument is no text");
    }
    return Optional.of(found.textValue());
  }

  /** The positive number {@code name}. */
  int number(String name) {
    JsonNode found = object.get(name);
    if (found == null || !found.canConvertToInt() || found.intValue() <= 0) {
      throw new Refusal("the argument has no positive number \"" + name + "\"");
    }
    return found.intValue();
  }

  /** The object {@code name}, whose values are texts. */
  Map<String, String> texts(String name) {
    Map<String, String> texts = new LinkedHashMap<>();
    object(name)
        .fields()
        .forEachRemaining(
            entry -> {
              if (!entry.getValue().isTextual()) {
                throw new Refusal("\"" + name + "\" of the argument holds what is no text");
              }
              texts.put(entry.getKey(), entry.getValue().textValue());
            });
    return texts;
  }

  /** The object {@code name}. */
  JsonNode object(String name) {
    JsonNode found = object.get(name);
    if (found == null || !found.isObject()) {
      throw new Refusal("the argument has no object \"" + name + "\"");
    }
    return found;
  }

  /** The array {@code name}. */
  JsonNode array(String name) {
    JsonNode found = object.get(name);
    if (found == null || !found.isArray()) {
      throw new Refusal("the argument has no array \"" + name + "\"");
    }
    return found;
  }
}
