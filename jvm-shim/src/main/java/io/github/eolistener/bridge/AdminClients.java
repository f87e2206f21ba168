package io.github.eolistener.bridge;

import io.github.eolistener.kafka.GroupCalls;
import io.github.eolistener.protocol.ErrorClasses;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The Kafka clients that one bridge process has opened in this JVM, closed when it has exited. */
final class AdminClients {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");

  private final Set<String> names = new HashSet<>();
  private boolean closed;

  /** Runs {@code work}, which may open the client of that name. */
  String use(String name, Supplier<String> work) {
    if (!register(name)) {
      throw new IllegalStateException("the bridge process that asks has exited");
    }
    try {
      return work.get();
    } finally {
      if (isClosed()) { // meanwhile: the client may have been opened after that
        close(name);
      }
    }
  }

  /** Closes them all, within about a second; none can be opened afterwards. */
  void close() {
    Set<String> opened;
    synchronized (this) {
      closed = true;
      opened = Set.copyOf(names);
      names.clear();
    }
    opened.forEach(AdminClients::close);
  }

  private static void close(String name) {
    try {
      GroupCalls.close(name);
    } catch (RuntimeException | LinkageError fault) {
      LOGGER.warn("closing a Kafka client failed: {}", ErrorClasses.of(fault));
    }
  }

  private synchronized boolean register(String name) {
    if (!closed) {
      names.add(name);
    }
    return !closed;
  }

  private synchronized boolean isClosed() {
    return closed;
  }
}
