package io.github.eolistener;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.Supplier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What waits for the bridge: in order, bounded, and told again to the next one. */
@Timeout(60)
class MailboxTest {
  private final Claims claims = new Claims();
  private final Mailbox mailbox = new Mailbox(claims);
  private int key;

  @BeforeEach
  void open() {
    key = mailbox.tellAgain();
  }

  private Run start() {
    Run run = new Run(UUID.randomUUID(), UUID.randomUUID(), "flights");
    mailbox.started(run);
    return run;
  }

  private void progress(Run run, int batch) {
    mailbox.progressed(run.runId, () -> "batch " + batch);
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
    Mailbox other = new Mailbox(claims);
    int otherKey = other.tellAgain();
    other.started(new Run(UUID.randomUUID(), UUID.randomUUID(), null));
    Thread.sleep(1_100);
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
    mailbox.progressed(
        run.runId,
        () -> {
          made[0] = true;
          return "{}";
        });
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
