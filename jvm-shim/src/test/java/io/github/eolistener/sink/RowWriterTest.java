package io.github.eolistener.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.RefusedException;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class RowWriterTest {
  // A producer of these would not open: whatever is sent fails.
  private static final CallArguments GIVEN =
      CallArguments.of(
          "{\"batch\":\"b\",\"tasks\":2,\"topics\":[[\"t\",2]],\"transactionalId\":\"t\","
              + "\"producerId\":1,\"epoch\":0,\"properties\":{\"bootstrap.servers\":\"hunter2\"}}");

  private static final CallArguments UNFENCED =
      CallArguments.of(
          "{\"batch\":\"u\",\"tasks\":2,\"topics\":[[\"t\",2]],"
              + "\"properties\":{\"bootstrap.servers\":\"hunter2\"}}");

  private static Map<String, Object> written(int attempt, int stageAttempt, int target) {
    return written(GIVEN, attempt, stageAttempt, target);
  }

  private static Map<String, Object> written(
      CallArguments given, int attempt, int stageAttempt, int target) {
    RowWriter writer =
        new RowWriter(
            TaskProducers.of(given),
            TargetPartitions.of(given),
            new int[] {1, attempt, stageAttempt});
    writer.write(new GenericInternalRow(new Object[] {0, 0L, target, null, new byte[0], null}));
    Map<String, Object> report = ((TaskReport) writer.commit()).json();
    writer.close();
    return report;
  }

  @Test
  @DisplayName("A later attempt, or one of a later attempt of the stage, sends nothing and says so")
  void laterAttempts() {
    Map<String, Object> again = written(1, 0, 0);
    assertEquals(1, again.get("attempt"));
    assertEquals(Map.of(), again.get("records"));
    assertNull(again.get("error"));
    assertNull(written(0, 1, 0).get("error"));
    assertEquals(1, written(0, 1, 0).get("stageAttempt"));
  }

  @Test
  @DisplayName("What Kafka's client refuses is reported, not thrown: Spark would try it again")
  void reported() {
    Map<String, Object> report = written(0, 0, 1);
    assertEquals("_INVALID_ARG", ((Map<?, ?>) report.get("error")).get("code"));
    assertFalse(report.toString().contains("hunter2"));
  }

  @Test
  @DisplayName("Without a transaction too: a later attempt sends nothing, what fails is reported")
  void unfenced() {
    assertNull(written(UNFENCED, 1, 0, 0).get("error"));
    assertNull(written(UNFENCED, 0, 1, 0).get("error"));
    Map<String, Object> report = written(UNFENCED, 0, 0, 0);
    assertEquals("_INVALID_ARG", ((Map<?, ?>) report.get("error")).get("code"));
    assertFalse((report + new OrderedBatchWrite(UNFENCED).toString()).contains("hunter2"));
    assertEquals(Map.of(-8, 1L), written(UNFENCED, 0, 0, -8).get("refused"));
  }

  @Test
  @DisplayName("Rows that can go nowhere are counted by their reason")
  void refused() {
    assertEquals(Map.of(-2, 1L), written(0, 0, -2).get("refused"));
  }

  @Test
  @DisplayName("A batch is found by its name, begun once, and shows no property")
  void batches() {
    BatchWrites.open(GIVEN);
    OrderedBatchWrite found = BatchWrites.find("b");
    assertFalse((found + found.description()).contains("hunter2"));
    for (String text : List.of("[1]\n[2]", "[3]")) {
      BatchWrites.leaveOut(
          CallArguments.of(
              "{\"batch\":\"b\",\"identities\":\"" + text.replace("\n", "\\n") + "\"}"));
    }
    assertEquals(List.of("[1]\n[2]", "[3]"), found.there());
    found.createBatchWriterFactory(() -> 2);
    assertThrows(RefusedException.class, () -> found.createBatchWriterFactory(() -> 2));
    assertEquals(2, BatchWrites.reports(GIVEN).get("tasks"));
    assertEquals(false, BatchWrites.reports(GIVEN).get("running"));
    BatchWrites.close(GIVEN);
    assertThrows(RefusedException.class, () -> BatchWrites.find("b"));
  }

  @Test
  @DisplayName("Of packs too a later attempt sends nothing, and what goes nowhere is counted")
  void packed() {
    for (int attempt = 0; attempt < 2; attempt++) {
      PackWriter writer =
          new PackWriter(
              TaskProducers.of(GIVEN), TargetPartitions.of(GIVEN), new int[] {1, attempt, 0});
      RecordPack.Writer pack = new RecordPack.Writer(1);
      pack.refuse(-3);
      pack.add(0, new GenericInternalRow(new Object[] {null, null, new byte[0]}), null);
      pack.refuse(-3);
      writer.write(new GenericInternalRow(new Object[] {0, 0L, pack.take()}));
      Map<String, Object> report = ((TaskReport) writer.commit()).json();
      writer.close();
      assertEquals(Map.of(-3, 2L), report.get("refused"));
      assertEquals(attempt == 0, report.get("error") != null);
    }
  }
}
