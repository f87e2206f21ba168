package io.github.eolistener.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.eolistener.events.ClaimedRuns;
import io.github.eolistener.events.EventQueue;
import io.github.eolistener.events.QueryRun;
import io.github.eolistener.requests.PositionDouble;
import io.github.eolistener.requests.QueryDouble;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The threads that answer the bridge. */
@Timeout(60)
class RequestHandlerTest {
  /** A slow end of a run delays no answer; beyond a hundred waiting, a run is released at once. */
  @Test
  void freezesBesideTheAnswers() throws InterruptedException {
    CountDownLatch slow = new CountDownLatch(1);
    RequestHandler requests = new RequestHandler(new EventQueue(new ClaimedRuns()));
    try {
      for (int i = 0; i < 102; i++) {
        QueryRun run = new QueryRun(UUID.randomUUID(), UUID.randomUUID(), null);
        run.answers.attach(new Slow(slow));
        requests.runEnded(run);
        if (i == 0) {
          Thread.sleep(200); // it is running, not waiting
        }
        assertEquals(i < 101, isOpen(run));
      }
    } finally {
      slow.countDown();
      requests.close();
    }
  }

  private static boolean isOpen(QueryRun run) {
    try {
      return run.answers.answer("mode").equals("MICRO_BATCH");
    } catch (IllegalStateException released) {
      return false;
    }
  }

  /** Answers some questions late; recognised by the name of its superclass. */
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
