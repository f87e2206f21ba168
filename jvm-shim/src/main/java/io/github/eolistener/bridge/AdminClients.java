package io.github.eolistener;

import java.util.HashSet;
import java.util.Set;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The Kafka clients that one bridge has opened in this JVM, to be closed when it is gone. */
final class AdminClients {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");

  private final Set<String> names = new HashSet<>();
  private boolean closed;

  /** Does something with the client of that name, which it may open. */
  String use(String name, Supplier<String> work) {
    if (!open(name)) {
      throw new IllegalStateException("the bridge that asks is gone");
    }
    try {
      return work.get();
    } finally {
      if (isClosed()) { // meanwhile: it may have been opened after it was closed
        close(name);
      }
    }
  }

  /** Closes them all, within a second or so; from now on none is opened. */
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
      Groups.close(name);
    } catch (RuntimeException | LinkageError fault) {
      LOGGER.warn("a Kafka client could not be closed: {}", Failure.classes(fault));
    }
  }

  private synchronized boolean open(String name) {
    if (!closed) {
      names.add(name);
    }
    return !closed;
  }

  private synchronized boolean isClosed() {
    return closed;
  }
}
