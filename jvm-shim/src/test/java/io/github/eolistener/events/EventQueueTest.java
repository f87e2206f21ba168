package io.github.eolistener.events;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.protocol.Message;
import io.github.eolistener.requests.PositionDouble;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Supplier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What waits for the bridge: in order, bounded, and sent again to the next process. */
@Timeout(60)
class EventQueueTest {
  private final ClaimedRuns claims = new ClaimedRuns();
  private long now = 1_000_000_000_000L;
  private final EventQueue queue = new EventQueue(claims, () -> now);
  private int generation;

  @BeforeEach
  void open() {
    generation = queue.resendAll();
  }

  private QueryRun start() {
    return start(UUID.randomUUID());
  }

  private QueryRun start(UUID query) {
    QueryRun run = new QueryRun(query, UUID.randomUUID(), "flights");
    run.answers.attach(new PositionDouble.MicroBatchExecution());
    queue.started(run);
    return run;
  }

  private void progress(QueryRun run, int batch) {
    progress(run, batch, "{\"t\":{\"0\":" + batch + "}}");
  }

  private void progress(QueryRun run, int batch, String end) {
    queue.progressed(run.runId, new ProgressEvent(batch, List.of(end), () -> "batch " + batch));
  }

  private boolean isKept(QueryRun run) {
    return queue.run(run.runId) != null;
  }

  /** All that is ready, in short: the kind of each line, and the text of an event. */
  private List<String> taken() throws InterruptedException {
    List<String> taken = new ArrayList<>();
    for (List<Supplier<String>> lines = queue.take(generation, 1);
        !lines.isEmpty();
        lines = queue.take(generation, 1)) {
      for (Supplier<String> line : lines) {
        JsonNode message = Message.parse(line.get().getBytes(StandardCharsets.UTF_8));
        String kind = message.fieldNames().next();
        taken.add(kind.equals("progress") ? message.get(kind).asText() : kind);
      }
    }
    return taken;
  }

  /** That a run had nothing to do is told once until it is taken, after its events, before its end. */
  @Test
  void tellsOfAnIdleRunOnce() throws InterruptedException {
    QueryRun run = start();
    progress(run, 0);
    queue.idle(run.runId);
    queue.idle(run.runId);
    queue.idle("unknown");
    assertEquals(List.of("started", "batch 0", "idle"), taken());
    progress(run, 1);
    assertEquals(List.of("batch 1"), taken());
    queue.idle(run.runId);
    queue.ended(run.runId);
    queue.idle(run.runId);
    assertEquals(List.of("idle", "ended"), taken());
  }

  /** A run is sent from its start to its end, each event in its place and once. */
  @Test
  void keepsTheOrderOfARun() throws InterruptedException {
    QueryRun run = start();
    progress(run, 0);
    progress(run, 1);
    queue.ended(run.runId);
    assertEquals(List.of("started", "batch 0", "batch 1", "ended"), taken());
    assertEquals(List.of(), taken());
  }

  /** A start alone waits a second for another listener's claim, but not when all is flushed. */
  @Test
  void holdsAStartBack() throws InterruptedException {
    start();
    assertEquals(List.of(), taken());
    queue.flush();
    assertEquals(List.of("started"), taken());
    EventQueue other = new EventQueue(claims, () -> now);
    int otherGeneration = other.resendAll();
    other.started(new QueryRun(UUID.randomUUID(), UUID.randomUUID(), null));
    now += 999_000_000L;
    assertEquals(0, other.take(otherGeneration, 1).size());
    now += 2_000_000L;
    assertEquals(1, other.take(otherGeneration, 1).size());
  }

  /** A claimed run is not sent on; whether its start was sent is returned. */
  @Test
  void dropsAClaimedRun() throws InterruptedException {
    QueryRun early = new QueryRun(UUID.randomUUID(), UUID.randomUUID(), null);
    claims.add(early.runId);
    queue.started(early);
    progress(early, 0);
    assertTrue(queue.isEmpty());
    QueryRun unsent = start();
    assertFalse(queue.release(unsent.runId));
    QueryRun sent = start();
    progress(sent, 0);
    taken();
    progress(sent, 1);
    assertTrue(queue.release(sent.runId));
    progress(sent, 2);
    queue.ended(sent.runId);
    assertEquals(List.of(), taken());
    assertTrue(queue.isEmpty());
  }

  /** When too many events wait, the oldest are dropped, but never the newest of a run. */
  @Test
  void isBounded() throws InterruptedException {
    QueryRun busy = start();
    for (int batch = 0; batch < 5_000; batch++) {
      progress(busy, batch);
    }
    QueryRun late = start();
    progress(late, 7);
    progress(late, 8);
    List<String> lines = taken();
    assertEquals(1 + 1_000 + 1 + 1, lines.size());
    assertEquals("batch 4000", lines.get(1));
    assertEquals("batch 4999", lines.get(1_000));
    assertEquals("batch 8", lines.get(1_002));
    progress(busy, 5_000);
    progress(busy, 5_001);
    assertEquals(List.of("batch 5000", "batch 5001"), taken());
  }

  /** With two of our listeners each event counts once, and so do start and end. */
  @Test
  void takesAnEventOnce() throws InterruptedException {
    QueryRun run = start();
    queue.started(new QueryRun(run.queryId, UUID.fromString(run.runId), run.name));
    for (int batch = 0; batch < 2; batch++) {
      progress(run, batch);
      progress(run, batch);
    }
    assertEquals(List.of("started", "batch 0", "batch 1"), taken());
    progress(run, 1);
    progress(run, 2, "{}");
    progress(run, 2, "{\"t\":{\"0\":9}}");
    assertEquals(Optional.of(run), queue.ended(run.runId));
    assertEquals(Optional.empty(), queue.ended(run.runId));
    assertEquals(List.of("batch 2", "batch 2", "ended"), taken());
  }

  /** Of runs that ended over a minute ago the last of each query is kept, a hundred in all. */
  @Test
  void keepsFewRunsThatHaveEnded() {
    UUID query = UUID.randomUUID();
    List<QueryRun> ended = new ArrayList<>();
    for (int i = 0; i < 150; i++) {
      QueryRun run = start(i < 50 ? query : UUID.randomUUID());
      progress(run, i);
      queue.ended(run.runId);
      ended.add(run);
    }
    QueryRun running = start();
    assertTrue(ended.stream().allMatch(this::isKept)); // a bridge may still ask about them
    now += 61_000_000_000L;
    QueryRun again = start(query);
    queue.ended(again.runId);
    assertFalse(isKept(ended.get(49))); // too many
    assertTrue(isKept(ended.get(50)));
    QueryRun third = start(ended.get(50).queryId);
    queue.ended(third.runId);
    assertTrue(isKept(ended.get(50))); // the later one has no event
    QueryRun fourth = start(ended.get(50).queryId);
    progress(fourth, 7);
    queue.ended(fourth.runId);
    assertFalse(isKept(ended.get(50)));
    assertEquals(99, ended.stream().filter(this::isKept).count());
    assertTrue(isKept(running) && isKept(again) && isKept(third) && isKept(fourth));
  }

  /** A closed queue keeps nothing and accepts nothing. */
  @Test
  void keepsNothingWhenClosed() throws InterruptedException {
    QueryRun running = start();
    QueryRun ended = start();
    progress(ended, 0);
    queue.ended(ended.runId);
    queue.close();
    assertTrue(queue.isEmpty());
    assertThrows(IllegalStateException.class, () -> running.answers.answer("mode"));
    QueryRun later = start();
    assertTrue(queue.knows(later.runId));
    progress(later, 0);
    assertEquals(Optional.empty(), queue.ended(later.runId));
    assertTrue(queue.isEmpty());
    assertEquals(List.of(), taken());
    queue.awaitRun();
  }

  /** Runs are bounded too: one that has ended is dropped before one that is active. */
  @Test
  void keepsAThousandRuns() throws InterruptedException {
    QueryRun first = start();
    QueryRun ended = start();
    queue.ended(ended.runId);
    for (int i = 0; i < 999; i++) {
      start();
    }
    assertNull(queue.run(ended.runId));
    assertEquals(first, queue.run(first.runId));
    start();
    assertNull(queue.run(first.runId));
  }

  /** The next process is sent each run's start, newest event and end; the last one nothing more. */
  @Test
  void resendsToTheNextBridge() throws InterruptedException {
    QueryRun run = start();
    progress(run, 0);
    progress(run, 1);
    taken();
    QueryRun other = start();
    progress(other, 5);
    queue.ended(run.runId);
    int before = generation;
    generation = queue.resendAll();
    assertEquals(List.of(), queue.take(before, 1));
    assertEquals(List.of("started", "batch 1", "ended", "started", "batch 5"), taken());
    queue.forget(run.runId);
    generation = queue.resendAll();
    assertEquals(List.of("started", "batch 5"), taken());
  }

  /** An event becomes JSON when it is taken, not when it is put in. */
  @Test
  void rendersLate() throws InterruptedException {
    QueryRun run = start();
    boolean[] rendered = {false};
    Supplier<String> json =
        () -> {
          rendered[0] = true;
          return "{}";
        };
    queue.progressed(run.runId, new ProgressEvent(0, List.of(), json));
    assertFalse(rendered[0]);
    taken();
    assertTrue(rendered[0]);
  }

  /** A wait for lines ends with the first. */
  @Test
  void wakesAWaitingTake() throws InterruptedException {
    QueryRun run = start();
    Thread later =
        new Thread(
            () -> {
              sleep(200);
              progress(run, 0);
            });
    later.start();
    queue.take(generation, 1); // the start of the run has woken it already
    long began = System.nanoTime();
    assertEquals(2, queue.take(generation, 20_000).size());
    assertTrue(System.nanoTime() - began < 10_000_000_000L);
    later.join();
  }

  private static void sleep(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException unexpected) {
      throw new IllegalStateException(unexpected);
    }
  }
}
