package io.github.eolistener;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One bridge: a process, a thread that writes to it, one that reads from it, one for its log.
 *
 * <p>A write may block for ever (the process was stopped), so nobody waits for the writer; killing
 * the process ends all three threads.
 */
final class Child {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final int LONGEST = 1 << 24;
  private static final int NOISE = 1_000; // what a start-up file may print before the greeting
  private static final long PAUSE = 1_000;

  final BridgeLog log;

  private final Process process;
  private final Mailbox mailbox;
  private final Clerk clerk;
  private final AdminClients clients = new AdminClients();
  private final int key;
  private final Queue<String> replies = new ConcurrentLinkedQueue<>();
  private final AtomicLong pings = new AtomicLong();
  private final Thread writer;
  private final Thread reader;
  private final Thread errors;
  private volatile long ponged;
  private volatile JsonNode greeting;
  private volatile long endAt;
  private volatile boolean ending;
  private final AtomicInteger garbage = new AtomicInteger();

  private Child(Process process, String hello, Mailbox mailbox, Clerk clerk) {
    this.process = process;
    this.mailbox = mailbox;
    this.clerk = clerk;
    this.key = mailbox.tellAgain();
    this.log = new BridgeLog(process.getErrorStream());
    replies.add(hello);
    this.writer = Bridge.thread("eo-listener-bridge-writer", this::write);
    this.reader = Bridge.thread("eo-listener-bridge-reader", this::read);
    this.errors = Bridge.thread("eo-listener-bridge-log", log);
  }

  /** Starts the process. IOException: there is no such program, or it cannot be run. */
  static Child start(ProcessBuilder command, String hello, Mailbox mailbox, Clerk clerk)
      throws IOException {
    Child child = new Child(command.start(), hello, mailbox, clerk);
    child.writer.start();
    child.reader.start();
    child.errors.start();
    return child;
  }

  long pid() {
    return process.pid();
  }

  /** What it said first; null until then. */
  JsonNode greeting() {
    return greeting;
  }

  /** How many lines came that are none of the protocol's. */
  int garbage() {
    return garbage.get();
  }

  boolean isAlive() {
    return process.isAlive();
  }

  int exitCode() {
    return process.exitValue();
  }

  void onExit(Runnable then) {
    process.onExit().thenRun(then);
  }

  /** Asks for a sign of life, unless one is outstanding. */
  void ping() {
    if (isAnswering()) {
      send(Message.ping(pings.incrementAndGet()));
    }
  }

  /** Whether every ping so far was answered. */
  boolean isAnswering() {
    return ponged >= pings.get();
  }

  /** Has it told all that waits, then asked to end, with what is left of the time until then. */
  void end(long atNanos) {
    endAt = atNanos;
    ending = true;
    mailbox.wake();
  }

  /** Whether it was told to end. */
  boolean isEnding() {
    return ending;
  }

  /** Ends it at once, also when it is stopped. */
  void kill() {
    process.destroyForcibly();
  }

  /**
   * Waits for its threads, which end with the process, so that all it said is in the log; closes
   * what it has opened in this JVM.
   */
  void join(long millis) throws InterruptedException {
    mailbox.wake();
    clients.close();
    for (Thread thread : List.of(errors, reader, writer)) {
      thread.join(millis);
    }
  }

  private void send(String line) {
    replies.add(line);
    mailbox.wake();
  }

  private void write() {
    try (OutputStream output = new BufferedOutputStream(process.getOutputStream(), 1 << 16)) {
      boolean endTold = false;
      while (process.isAlive()) {
        for (String reply = replies.poll(); reply != null; reply = replies.poll()) {
          line(output, reply);
        }
        output.flush();
        boolean mayEnd = ending;
        List<Supplier<String>> lines = greeting == null ? List.of() : mailbox.take(key, PAUSE);
        for (Supplier<String> next : lines) {
          String text = text(next);
          if (text != null) {
            line(output, text);
          }
        }
        if (greeting == null) {
          mailbox.pause(PAUSE); // what is put in now stays there for the next bridge, if this fails
        } else if (lines.isEmpty() && mayEnd && !endTold) {
          endTold = true;
          double left = (endAt - System.nanoTime()) / (double) TimeUnit.SECONDS.toNanos(1);
          line(output, Message.end(Math.max(0.0, left)));
        }
      }
    } catch (IOException | InterruptedException gone) {
      // The process has ended or was killed; its supervisor sees that.
    } catch (Throwable error) {
      garbage.incrementAndGet(); // not to be: then rather a new bridge than one that hears nothing
    }
  }

  /** An event as text; null for one that Spark cannot write, which would fail again and again. */
  private static String text(Supplier<String> event) {
    try {
      return event.get();
    } catch (RuntimeException | LinkageError fault) {
      LOGGER.error("an event of Spark is not committed: it cannot be written as JSON", fault);
      return null;
    }
  }

  private static void line(OutputStream output, String text) throws IOException {
    output.write(text.getBytes(StandardCharsets.UTF_8));
    output.write('\n');
  }

  private void read() {
    LineReader lines = new LineReader(process.getInputStream(), LONGEST);
    int noise = 0;
    try {
      for (byte[] line = lines.next(); line != null; line = lines.next()) {
        JsonNode message = Message.parse(line);
        if (greeting != null) {
          take(message);
        } else if (message != null && message.has("v")) {
          log.greeted();
          greeting = message;
          mailbox.wake();
        } else if (++noise > NOISE) {
          garbage.incrementAndGet();
        }
      }
    } catch (IOException gone) {
      // The process has ended or was killed; its supervisor sees that.
    } catch (Throwable error) {
      garbage.incrementAndGet();
    }
  }

  private void take(JsonNode message) {
    if (message == null) {
      garbage.incrementAndGet();
    } else if (message.has("pong")) {
      ponged = message.path("pong").asLong();
    } else if (message.has("ask")) {
      clerk.ask(message, clients, this::send);
    } else if (message.has("forget")) {
      mailbox.forget(message.path("forget").asText());
    } else {
      garbage.incrementAndGet();
    }
  }
}
