package io.github.eolistener.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.eolistener.protocol.CallArguments;
import java.lang.reflect.Field;
import java.util.Optional;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class TransactionJoinTest {
  private static final String JOINED =
      "{\"transactionalId\":\"t\",\"producerId\":70000000000,\"epoch\":7,"
          + "\"properties\":{\"bootstrap.servers\":\"127.0.0.1:1\",\"my.password\":\"hunter2\"}}";

  @Test
  @DisplayName("The oldest kafka-clients of Spark has what a producer joins by")
  void present() {
    assertEquals(Optional.empty(), TransactionJoin.missing());
  }

  @Test
  @DisplayName("Where a member or its class is missing, its name is told")
  void missing() {
    assertTrue(TransactionJoin.missing("java.lang.String").orElse("").contains("String"));
    assertTrue(TransactionJoin.missing("no.Such").orElse("").contains("no.Such"));
  }

  @Test
  @DisplayName("A new producer is in the transaction without having asked a broker")
  void joins() throws ReflectiveOperationException {
    JoinedTransaction told = JoinedTransaction.of(CallArguments.of(JOINED));
    try (TaskProducer made = new TaskProducer(told, "test")) {
      Object manager = member(member(made, "producer"), "transactionManager");
      assertEquals("IN_TRANSACTION", member(manager, "currentState").toString());
      Object epoch = member(manager, "producerIdAndEpoch");
      assertEquals(70000000000L, member(epoch, "producerId"));
      assertEquals((short) 7, member(epoch, "epoch"));
    }
  }

  @Test
  @DisplayName("What a task is told does not say its passwords")
  void secret() {
    assertFalse(JoinedTransaction.of(CallArguments.of(JOINED)).toString().contains("hunter2"));
  }

  private static Object member(Object of, String name) throws ReflectiveOperationException {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(of);
  }
}
