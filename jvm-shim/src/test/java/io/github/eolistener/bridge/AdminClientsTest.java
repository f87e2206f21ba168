package io.github.eolistener.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.eolistener.events.ClaimedRuns;
import io.github.eolistener.events.EventQueue;
import io.github.eolistener.requests.ShimCalls;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Kafka clients that a bridge process has opened in the driver's JVM do not outlive it. */
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

  private static ObjectNode snapshot(String client) {
    return JSON.createObjectNode()
        .put("ask", 1)
        .put("what", "call")
        .put("call", "groups.snapshot")
        .put(
            "argument",
            "{\"client\":\"" + client + "\",\"properties\":{\"bootstrap.servers\":\"127.0.0.1:1\"},"
                + "\"timeoutMs\":700,\"group\":\"g\",\"topics\":{\"t\":[0]}}");
  }

  /** A client of a bridge that has exited is closed, with its thread; one of another stays open. */
  @Test
  void closesTheClientsOfABridgeThatExited() throws InterruptedException {
    RequestHandler requests = new RequestHandler(new EventQueue(new ClaimedRuns()));
    AdminClients others = new AdminClients();
    try {
      requests.handle(snapshot("dead"), clients, replies::add);
      requests.handle(snapshot("living"), others, replies::add);
      assertTrue(replies.poll(20, TimeUnit.SECONDS).contains("REQUEST_TIMED_OUT"));
      assertTrue(replies.poll(20, TimeUnit.SECONDS).contains("REQUEST_TIMED_OUT"));
      assertEquals(1, threads("dead"));
      clients.close();
      assertEquals(0, threads("dead"));
      assertEquals(1, threads("living"));
      requests.handle(snapshot("dead"), clients, replies::add);
      String refused = replies.poll(20, TimeUnit.SECONDS);
      assertTrue(refused.contains("the bridge process that asks has exited"), refused);
      assertEquals(0, threads("dead"));
    } finally {
      requests.close();
      others.close();
    }
  }

  /** A client that is opened while the others are being closed is closed too. */
  @Test
  void closesAClientThatIsOpenedMeanwhile() throws InterruptedException {
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
                      return ShimCalls.call(
                          "groups.snapshot", snapshot("late").get("argument").asText());
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
