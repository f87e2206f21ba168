package io.github.eolistener;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaException;

/**
 * The Admin that all groups of one cluster share; for one thread at a time, but for {@code close}.
 *
 * <p>What holds of a request. With {@code retries=0} the Admin repeats none whose connection failed;
 * one that the broker answered with "not now" is repeated here, until the time is over. So an answer
 * is the answer to the only request that was out. When its time is over the Admin drops what it has
 * not sent yet, and cuts the connection of what it has: nothing goes out after REQUEST_TIMED_OUT was
 * told. What does not hold: a request that the broker had read already when its connection was cut
 * may still be carried out, after a later one even. So that code means "unknown", also where in
 * truth nothing was sent.
 *
 * <p>Brokers before 3.0 are not served: the Admin would have to repeat its first request to find out
 * that they are.
 */
final class GroupAdmin {
  private static final Duration FAREWELL = Duration.ofSeconds(1);
  private static final Duration AT_ONCE = Duration.ofMillis(1); // of zero it waits without limit
  private static final long RENEW_AFTER_NS = TimeUnit.SECONDS.toNanos(30);
  private static final int PAUSE_MS = 50;

  private final String id;
  private final Map<String, String> properties;
  private volatile Admin admin;
  private volatile boolean closed;
  private long openedAt;

  GroupAdmin(String id, Map<String, String> properties) {
    this.id = id;
    this.properties = properties;
  }

  /** Something to be asked of the cluster within a time. */
  interface Question {
    Map<String, Object> ask(Admin admin, Limit limit)
        throws ExecutionException, TimeoutException, InterruptedException;

    /** Whether it changes something, so that it must not be carried out later on. */
    boolean writes();
  }

  /** The answer, or {@code {"error":{"code","cause"}}} where Kafka or its client gave none. */
  Map<String, Object> ask(int timeoutMs, Question question) {
    Limit limit = new Limit(timeoutMs);
    try {
      while (true) {
        try {
          return question.ask(opened(), limit);
        } catch (ExecutionException | KafkaException failed) {
          KafkaFailure failure = KafkaFailure.of(failed);
          if (!failure.isPassing() || limit.leftMs() <= PAUSE_MS) {
            return told(failure);
          }
          Thread.sleep(PAUSE_MS);
        }
      }
    } catch (TimeoutException silent) {
      return abandoned(question, "no broker answered in time");
    } catch (InterruptedException wanted) {
      Thread.currentThread().interrupt();
      return abandoned(question, "the thread that waited was interrupted");
    }
  }

  /** The Admin has not told of its own limit: what it still holds must not go out later on. */
  private Map<String, Object> abandoned(Question question, String cause) {
    if (question.writes()) {
      drop(AT_ONCE);
    }
    return KafkaFailure.unanswered(cause).answer();
  }

  private Map<String, Object> told(KafkaFailure failure) {
    if (failure.isOfCredentials() && System.nanoTime() - openedAt > RENEW_AFTER_NS) {
      drop(AT_ONCE); // there may be newer ones, a new delegation token for example
    }
    return failure.answer();
  }

  /** Lets go of the connections; what is still asked ends within a second. */
  void close() {
    closed = true;
    drop(FAREWELL);
  }

  private Admin opened() {
    if (admin == null) {
      openedAt = System.nanoTime();
      admin = Admin.create(AdminProperties.of(id, properties));
      if (closed) { // meanwhile: opening may take long
        drop(AT_ONCE);
        throw new Refusal("this client was closed");
      }
    }
    return admin;
  }

  private void drop(Duration patience) {
    Admin dropped = admin;
    admin = null;
    if (dropped != null) {
      dropped.close(patience);
    }
  }
}
