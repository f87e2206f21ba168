package io.github.eolistener;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Clients of Kafka that a bridge has opened in the driver's JVM do not outlive it. */
@Timeout(60)
class AdminClientsTest {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final AdminClients clients = new AdminClients();
  private final LinkedBlockingQueue<String> replies = new LinkedBlockingQueue<>();

  private static long threads(String client) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.isAlive() && thread.getName().contains("eo-listener-" + client))
        .count();
  }

  private static ObjectNode look(String client) {
    return JSON.createObjectNode()
        .put("ask", 1)
        .put("what", "hands")
        .put("call", "groups.look")
        .put(
            "argument",
            "{\"client\":\"" + client + "\",\"properties\":{\"bootstrap.servers\":\"127.0.0.1:1\"},"
                + "\"timeoutMs\":700,\"group\":\"g\",\"topics\":{\"t\":[0]}}");
  }

  /** One that a dead bridge had opened is closed, with its thread; of another bridge none is. */
  @Test
  void closesWhatADeadBridgeHadOpened() throws InterruptedException {
    Clerk clerk = new Clerk(new Mailbox(new Claims()));
    AdminClients others = new AdminClients();
    try {
      clerk.ask(look("dead"), clients, replies::add);
      clerk.ask(look("living"), others, replies::add);
      assertTrue(replies.poll(20, TimeUnit.SECONDS).contains("REQUEST_TIMED_OUT"));
      assertTrue(replies.poll(20, TimeUnit.SECONDS).contains("REQUEST_TIMED_OUT"));
      assertEquals(1, threads("dead"));
      clients.close();
      assertEquals(0, threads("dead"));
      assertEquals(1, threads("living"));
      clerk.ask(look("dead"), clients, replies::add);
      assertTrue(replies.poll(20, TimeUnit.SECONDS).contains("the bridge that asks is gone"));
      assertEquals(0, threads("dead"));
    } finally {
      clerk.close();
      others.close();
    }
  }

  /** One that is opened while the others are closed is closed too. */
  @Test
  void closesWhatIsOpenedMeanwhile() throws InterruptedException {
    CountDownLatch asked = new CountDownLatch(1);
    CountDownLatch closed = new CountDownLatch(1);
    Thread late =
        new Thread(
            () ->
                clients.use(
                    "late",
                    () -> {
                      asked.countDown();
                      await(closed);
                      return Hands.call("groups.look", look("late").get("argument").asText());
                    }));
    late.start();
    await(asked);
    clients.close();
    closed.countDown();
    late.join();
    assertEquals(0, threads("late"));
    assertThrows(IllegalStateException.class, () -> clients.use("late", () -> ""));
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException unexpected) {
      throw new IllegalStateException(unexpected);
    }
  }
}
