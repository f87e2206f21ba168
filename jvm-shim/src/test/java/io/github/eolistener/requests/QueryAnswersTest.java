package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a run answers, while it is active and after its end. */
@Timeout(60)
class QueryAnswersTest {
  private final QueryAnswers answers = new QueryAnswers();

  private static String failure(QueryAnswers answers, String what) {
    return assertThrows(IllegalStateException.class, () -> answers.answer(what)).getMessage();
  }

  /** An ended run answers as it did at its end, and Spark's object is not kept. */
  @Test
  void answersAfterItsEndWithoutSparksObject() throws InterruptedException {
    PositionDouble.MicroBatchExecution query = new PositionDouble.MicroBatchExecution();
    query.streams.add("a stream");
    answers.attach(query);
    String position = answers.answer("position");
    String unplanned = failure(answers, "sources");
    answers.freeze();
    query.message = "Starting";
    assertEquals(position, answers.answer("position"));
    assertEquals("MICRO_BATCH", answers.answer("mode"));
    assertEquals("true", answers.answer("ended"));
    assertEquals(unplanned, failure(answers, "sources"));
    WeakReference<Object> reference = new WeakReference<>(query);
    query = null;
    while (reference.get() != null) {
      System.gc();
      Thread.sleep(10);
    }
    assertNull(reference.get());
  }

  /** A question that failed at the end fails later too; another library's message is not quoted. */
  @Test
  void givesTheReasonForNoAnswer() {
    assertTrue(failure(answers, "mode").contains("is not known to the driver's listener"));
    answers.freeze();
    assertTrue(failure(answers, "mode").contains("is not known to the driver's listener"));
    answers.attach(
        new PositionDouble.MicroBatchExecution() {
          @Override
          public QueryDouble.Seq sources() {
            throw new IllegalArgumentException("hunter2");
          }
        });
    answers.freeze();
    assertTrue(failure(answers, "position").contains("IllegalArgumentException"));
    assertTrue(!failure(answers, "position").contains("hunter2"));
  }
}
