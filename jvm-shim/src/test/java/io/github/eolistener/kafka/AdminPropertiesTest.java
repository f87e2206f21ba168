package io.github.eolistener.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.Map;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class AdminPropertiesTest {
  @Test
  @DisplayName("The user cannot change what keeps a commit from being sent twice")
  void overridden() {
    Map<String, Object> all =
        AdminProperties.of(
            "7", Map.of("retries", "9", "request.timeout.ms", "1", "client.id", "spark"));
    assertEquals("0", all.get("retries"));
    assertEquals("5000", all.get("request.timeout.ms"));
    assertEquals("eo-listener-7", all.get("client.id"));
  }

  @Test
  @DisplayName("Settings of other clients are left out; those of security and of handlers stay")
  void ofOtherClients() {
    Map<String, Object> all =
        AdminProperties.of(
            "7",
            Map.of(
                "group.id", "g",
                "key.deserializer", "D",
                "interceptor.classes", "I",
                "transaction.timeout.ms", "1",
                "sasl.mechanism", "AWS_MSK_IAM",
                "my.handler.region", "eu"));
    assertFalse(all.containsKey("group.id"));
    assertFalse(all.containsKey("key.deserializer"));
    assertFalse(all.containsKey("interceptor.classes"));
    assertFalse(all.containsKey("transaction.timeout.ms"));
    assertEquals("AWS_MSK_IAM", all.get("sasl.mechanism"));
    assertEquals("eu", all.get("my.handler.region"));
  }
}
