package io.github.eolistener;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Supplier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What waits for the bridge: in order, bounded, and told again to the next one. */
@Timeout(60)
class MailboxTest {
  private final Claims claims = new Claims();
  private long now = 1_000_000_000_000L;
  private final Mailbox mailbox = new Mailbox(claims, () -> now);
  private int key;

  @BeforeEach
  void open() {
    key = mailbox.tellAgain();
  }

  private Run start() {
    return start(UUID.randomUUID());
  }

  private Run start(UUID query) {
    Run run = new Run(query, UUID.randomUUID(), "flights");
    run.facts.open(new PositionDouble.MicroBatchExecution());
    mailbox.started(run);
    return run;
  }

  private void progress(Run run, int batch) {
    progress(run, batch, "{\"t\":{\"0\":" + batch + "}}");
  }

  private void progress(Run run, int batch, String end) {
    mailbox.progressed(run.runId, new Event(batch, List.of(end), () -> "batch " + batch));
  }

  private boolean isKept(Run run) {
    return mailbox.run(run.runId) != null;
  }

  /** All that is ready, in short: the kind of each line, and the text of an event. */
  private List<String> taken() throws InterruptedException {
    List<String> told = new ArrayList<>();
    for (List<Supplier<String>> lines = mailbox.take(key, 1);
        !lines.isEmpty();
        lines = mailbox.take(key, 1)) {
      for (Supplier<String> line : lines) {
        JsonNode message = Message.parse(line.get().getBytes(StandardCharsets.UTF_8));
        String kind = message.fieldNames().next();
        told.add(kind.equals("progress") ? message.get(kind).asText() : kind);
      }
    }
    return told;
  }

  /** A run is told from its start to its end, each event in its place and once. */
  @Test
  void keepsTheOrderOfARun() throws InterruptedException {
    Run run = start();
    progress(run, 0);
    progress(run, 1);
    mailbox.ended(run.runId);
    assertEquals(List.of("started", "batch 0", "batch 1", "ended"), taken());
    assertEquals(List.of(), taken());
  }

  /** A start alone waits a second for somebody to claim the run, but not when all ends. */
  @Test
  void holdsAStartBack() throws InterruptedException {
    start();
    assertEquals(List.of(), taken());
    mailbox.hurry();
    assertEquals(List.of("started"), taken());
    Mailbox other = new Mailbox(claims, () -> now);
    int otherKey = other.tellAgain();
    other.started(new Run(UUID.randomUUID(), UUID.randomUUID(), null));
    now += 999_000_000L;
    assertEquals(0, other.take(otherKey, 1).size());
    now += 2_000_000L;
    assertEquals(1, other.take(otherKey, 1).size());
  }

  /** A run that is claimed is told to nobody, before its start or after; what was told is said. */
  @Test
  void leavesAClaimedRun() throws InterruptedException {
    Run early = new Run(UUID.randomUUID(), UUID.randomUUID(), null);
    claims.add(early.runId);
    mailbox.started(early);
    progress(early, 0);
    assertTrue(mailbox.isEmpty());
    Run untold = start();
    assertFalse(mailbox.leave(untold.runId));
    Run told = start();
    progress(told, 0);
    taken();
    progress(told, 1);
    assertTrue(mailbox.leave(told.runId));
    progress(told, 2);
    mailbox.ended(told.runId);
    assertEquals(List.of(), taken());
    assertTrue(mailbox.isEmpty());
  }

  /** When too many events wait, the oldest go, and the newest of every run stays. */
  @Test
  void isBounded() throws InterruptedException {
    Run busy = start();
    for (int batch = 0; batch < 5_000; batch++) {
      progress(busy, batch);
    }
    Run late = start();
    progress(late, 7);
    progress(late, 8);
    List<String> told = taken();
    assertEquals(1 + 1_000 + 1 + 1, told.size());
    assertEquals("batch 4000", told.get(1));
    assertEquals("batch 4999", told.get(1_000));
    assertEquals("batch 8", told.get(1_002));
    progress(busy, 5_000);
    progress(busy, 5_001);
    assertEquals(List.of("batch 5000", "batch 5001"), taken());
  }

  /** Of two listeners that Spark was given each event counts once, and so do start and end. */
  @Test
  void takesAnEventOnce() throws InterruptedException {
    Run run = start();
    mailbox.started(new Run(run.queryId, UUID.fromString(run.runId), run.name));
    for (int batch = 0; batch < 2; batch++) {
      progress(run, batch);
      progress(run, batch);
    }
    assertEquals(List.of("started", "batch 0", "batch 1"), taken());
    progress(run, 1);
    progress(run, 2, "{}");
    progress(run, 2, "{\"t\":{\"0\":9}}");
    assertEquals(Optional.of(run), mailbox.ended(run.runId));
    assertEquals(Optional.empty(), mailbox.ended(run.runId));
    assertEquals(List.of("batch 2", "batch 2", "ended"), taken());
  }

  /** What ended a minute ago is only for another bridge: of each query the last, of all a hundred. */
  @Test
  void keepsFewRunsThatHaveEnded() {
    UUID query = UUID.randomUUID();
    List<Run> ended = new ArrayList<>();
    for (int i = 0; i < 150; i++) {
      Run run = start(i < 50 ? query : UUID.randomUUID());
      progress(run, i);
      mailbox.ended(run.runId);
      ended.add(run);
    }
    Run running = start();
    assertTrue(ended.stream().allMatch(this::isKept)); // a bridge may still ask about them
    now += 61_000_000_000L;
    Run again = start(query);
    mailbox.ended(again.runId);
    assertFalse(isKept(ended.get(49))); // too many
    assertTrue(isKept(ended.get(50)));
    Run third = start(ended.get(50).queryId);
    mailbox.ended(third.runId);
    assertTrue(isKept(ended.get(50))); // the later one has told nothing
    Run fourth = start(ended.get(50).queryId);
    progress(fourth, 7);
    mailbox.ended(fourth.runId);
    assertFalse(isKept(ended.get(50)));
    assertEquals(99, ended.stream().filter(this::isKept).count());
    assertTrue(isKept(running) && isKept(again) && isKept(third) && isKept(fourth));
  }

  /** Where no bridge will come nothing is kept, and nothing is taken in. */
  @Test
  void keepsNothingWhenClosed() throws InterruptedException {
    Run running = start();
    Run ended = start();
    progress(ended, 0);
    mailbox.ended(ended.runId);
    mailbox.close();
    assertTrue(mailbox.isEmpty());
    assertThrows(IllegalStateException.class, () -> running.facts.answer("mode"));
    Run later = start();
    assertTrue(mailbox.knows(later.runId));
    progress(later, 0);
    assertEquals(Optional.empty(), mailbox.ended(later.runId));
    assertTrue(mailbox.isEmpty());
    assertEquals(List.of(), taken());
    mailbox.awaitRun();
  }

  /** Runs are bounded too: one that has ended goes before one that still runs. */
  @Test
  void keepsAThousandRuns() throws InterruptedException {
    Run first = start();
    Run ended = start();
    mailbox.ended(ended.runId);
    for (int i = 0; i < 999; i++) {
      start();
    }
    assertNull(mailbox.run(ended.runId));
    assertEquals(first, mailbox.run(first.runId));
    start();
    assertNull(mailbox.run(first.runId));
  }

  /** The next bridge is told of every run its start, its newest event and its end; not the last. */
  @Test
  void tellsTheNextBridgeAgain() throws InterruptedException {
    Run run = start();
    progress(run, 0);
    progress(run, 1);
    taken();
    Run other = start();
    progress(other, 5);
    mailbox.ended(run.runId);
    int before = key;
    key = mailbox.tellAgain();
    assertEquals(List.of(), mailbox.take(before, 1));
    assertEquals(List.of("started", "batch 1", "ended", "started", "batch 5"), taken());
    mailbox.forget(run.runId);
    key = mailbox.tellAgain();
    assertEquals(List.of("started", "batch 5"), taken());
  }

  /** An event is made into text when it is taken, not when it is put in. */
  @Test
  void makesTextsLate() throws InterruptedException {
    Run run = start();
    boolean[] made = {false};
    Supplier<String> json =
        () -> {
          made[0] = true;
          return "{}";
        };
    mailbox.progressed(run.runId, new Event(0, List.of(), json));
    assertFalse(made[0]);
    taken();
    assertTrue(made[0]);
  }

  /** Who waits for lines is woken by the first. */
  @Test
  void wakesWhoWaits() throws InterruptedException {
    Run run = start();
    Thread later =
        new Thread(
            () -> {
              sleep(200);
              progress(run, 0);
            });
    later.start();
    mailbox.take(key, 1); // the start of the run has woken it already
    long began = System.nanoTime();
    assertEquals(2, mailbox.take(key, 20_000).size());
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
