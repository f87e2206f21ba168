package io.github.eolistener.sink;

import static org.junit.jupiter.api.Assertions.assertFalse;

import io.github.eolistener.protocol.CallArguments;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class OrderedBatchWriteTest {
  @Test
  @DisplayName("No task asks the driver whether it may commit: its report says which attempt it was")
  void noCoordinator() {
    CallArguments given =
        CallArguments.of("{\"topics\":[[\"a\",1]],\"tasks\":1,\"properties\":{}}");
    assertFalse(new OrderedBatchWrite(given).useCommitCoordinator());
  }
}
