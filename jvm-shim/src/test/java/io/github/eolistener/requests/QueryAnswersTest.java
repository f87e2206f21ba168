package io.github.eolistener;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a run can be asked, while it lives and after its end. */
@Timeout(60)
class QueryFactsTest {
  private final QueryFacts facts = new QueryFacts();

  private static String failure(QueryFacts facts, String what) {
    return assertThrows(IllegalStateException.class, () -> facts.answer(what)).getMessage();
  }

  /** An ended run answers as it did at its end, and Spark's object is kept by nobody. */
  @Test
  void answersAfterItsEndByTextsAlone() throws InterruptedException {
    PositionDouble.MicroBatchExecution query = new PositionDouble.MicroBatchExecution();
    query.streams.add("a stream");
    facts.open(query);
    String position = facts.answer("position");
    String unplanned = failure(facts, "sources");
    facts.conclude();
    query.message = "Starting";
    assertEquals(position, facts.answer("position"));
    assertEquals("MICRO_BATCH", facts.answer("mode"));
    assertEquals("true", facts.answer("ended"));
    assertEquals(unplanned, failure(facts, "sources"));
    WeakReference<Object> held = new WeakReference<>(query);
    query = null;
    while (held.get() != null) {
      System.gc();
      Thread.sleep(10);
    }
    assertNull(held.get());
  }

  /** What fails at the end is told as a failure, whoever asks; a foreign message is not quoted. */
  @Test
  void tellsWhyThereIsNoAnswer() {
    assertTrue(failure(facts, "mode").contains("is not known to the driver's listener"));
    facts.conclude();
    assertTrue(failure(facts, "mode").contains("is not known to the driver's listener"));
    facts.open(
        new PositionDouble.MicroBatchExecution() {
          @Override
          public QueryDouble.Seq sources() {
            throw new IllegalArgumentException("hunter2");
          }
        });
    facts.conclude();
    assertTrue(failure(facts, "position").contains("IllegalArgumentException"));
    assertTrue(!failure(facts, "position").contains("hunter2"));
  }

  /** One end that takes long holds up no answer, and behind a hundred such ends none waits. */
  @Test
  void concludesBesideTheAnswers() throws InterruptedException {
    CountDownLatch slow = new CountDownLatch(1);
    Clerk clerk = new Clerk(new Mailbox(new Claims()));
    try {
      for (int i = 0; i < 102; i++) {
        Run run = new Run(UUID.randomUUID(), UUID.randomUUID(), null);
        run.facts.open(new Slow(slow));
        clerk.conclude(run);
        if (i == 0) {
          Thread.sleep(200); // it is under way, not waiting
        }
        assertEquals(i < 101, isOpen(run));
      }
    } finally {
      slow.countDown();
      clerk.close();
    }
  }

  private static boolean isOpen(Run run) {
    try {
      return run.facts.answer("mode").equals("MICRO_BATCH");
    } catch (IllegalStateException released) {
      return false;
    }
  }

  /** Answers some questions late; by the name of its parent it is Spark's. */
  private static final class Slow extends PositionDouble.MicroBatchExecution {
    private final CountDownLatch until;

    Slow(CountDownLatch until) {
      this.until = until;
    }

    @Override
    public QueryDouble.Seq sources() {
      try {
        until.await();
      } catch (InterruptedException ended) {
        Thread.currentThread().interrupt();
      }
      return super.sources();
    }
  }
}
