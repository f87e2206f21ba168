package io.github.eolistener.kafka;

import io.github.eolistener.protocol.RefusedException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaException;

/**
 * The Admin client that all groups of one cluster share; for one thread at a time, except {@code
 * close}.
 *
 * <p>What is certain: with {@code retries=0} the Admin repeats no request whose connection failed.
 * One that the broker answered with a retriable error is repeated here, until the time is over. So
 * an answer belongs to the only request in flight. When its time is over, the Admin drops what it
 * has not sent yet and closes the connection of what it has: nothing is sent after
 * REQUEST_TIMED_OUT was returned.
 *
 * <p>What is not: the broker may still carry out a request that it had read when the connection was
 * closed, even after a later one. So that code means "outcome unknown", also where nothing was
 * sent.
 *
 * <p>Brokers before 3.0 are not supported: the Admin would have to repeat its first request to find
 * out their version.
 */
final class GroupAdmin {
  private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(1);
  private static final Duration AT_ONCE = Duration.ofMillis(1); // zero would wait without limit
  private static final long REOPEN_AFTER_NS = TimeUnit.SECONDS.toNanos(30);
  static final int RETRY_PAUSE_MS = 50;

  private final String id;
  private final Map<String, String> properties;
  private volatile Admin admin;
  private volatile boolean closed;
  private long openedAt;

  GroupAdmin(String id, Map<String, String> properties) {
    this.id = id;
    this.properties = properties;
  }

  /** One or more requests to the cluster, with a common deadline. */
  interface Operation {
    Map<String, Object> run(Admin admin, Deadline deadline)
        throws ExecutionException, TimeoutException, InterruptedException;

    /** Whether it changes something, so that it must not be carried out after its deadline. */
    boolean writes();
  }

  /**
   * The error of one of several that were asked for together; what is of all is thrown, and what may
   * pass, so that all are asked for again while there is time.
   */
  static KafkaError lasting(ExecutionException failed, Deadline deadline)
      throws ExecutionException {
    KafkaError error = KafkaError.of(failed);
    boolean passing = error.isRetriable() && deadline.leftMs() > RETRY_PAUSE_MS;
    if (passing || error.isOfCredentials()) {
      throw failed;
    }
    return error;
  }

  /** The answer, or {@code {"error":{"code","cause"}}} where Kafka or its client failed. */
  Map<String, Object> run(int timeoutMs, Operation operation) {
    Deadline deadline = new Deadline(timeoutMs);
    try {
      while (true) {
        try {
          return operation.run(opened(), deadline);
        } catch (ExecutionException | KafkaException failed) {
          KafkaError error = KafkaError.of(failed);
          if (!error.isRetriable() || deadline.leftMs() <= RETRY_PAUSE_MS) {
            return failed(error);
          }
          Thread.sleep(RETRY_PAUSE_MS);
        }
      }
    } catch (TimeoutException late) {
      return abandoned(operation, "no broker answered in time");
    } catch (InterruptedException requested) {
      Thread.currentThread().interrupt();
      return abandoned(operation, "the thread that waited was interrupted");
    }
  }

  /** The Admin has missed its own time-out: it must not send later what it still holds. */
  private Map<String, Object> abandoned(Operation operation, String cause) {
    if (operation.writes()) {
      drop(AT_ONCE);
    }
    return KafkaError.unanswered(cause).answer();
  }

  private Map<String, Object> failed(KafkaError error) {
    if (error.isOfCredentials() && System.nanoTime() - openedAt > REOPEN_AFTER_NS) {
      drop(AT_ONCE); // there may be newer credentials, such as a new delegation token
    }
    return error.answer();
  }

  /** Closes the connections; requests in flight end within a second. */
  void close() {
    closed = true;
    drop(CLOSE_TIMEOUT);
  }

  private Admin opened() {
    if (admin == null) {
      openedAt = System.nanoTime();
      admin = Admin.create(AdminProperties.of(id, properties));
      if (closed) { // meanwhile: opening may take long
        drop(AT_ONCE);
        throw new RefusedException("this client was closed");
      }
    }
    return admin;
  }

  private void drop(Duration timeout) {
    Admin dropped = admin;
    admin = null;
    if (dropped != null) {
      dropped.close(timeout);
    }
  }
}
