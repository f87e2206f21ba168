package io.github.eolistener.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.events.EventQueue;
import io.github.eolistener.protocol.LineReader;
import io.github.eolistener.protocol.Message;
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
 * One bridge process, with a thread that writes to it, one that reads from it and one for its log.
 *
 * <p>A write may block forever (the process was stopped), so nobody waits for the writer; killing
 * the process ends all three threads.
 */
final class BridgeProcess {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final int MAX_LINE_BYTES = 1 << 24;
  private static final int MAX_STARTUP_LINES = 1_000; // of a start-up file, before the greeting
  private static final long WAIT_MS = 1_000;

  final BridgeLog log;

  private final Process process;
  private final EventQueue queue;
  private final RequestHandler requests;
  private final AdminClients clients = new AdminClients();
  private final int generation;
  private final Queue<String> replies = new ConcurrentLinkedQueue<>();
  private final AtomicLong lastPing = new AtomicLong();
  private final Thread writer;
  private final Thread reader;
  private final Thread logReader;
  private volatile long lastPong;
  private volatile JsonNode greeting;
  private volatile long stopDeadline;
  private volatile boolean stopping;
  private final AtomicInteger invalidLines = new AtomicInteger();

  private BridgeProcess(
      Process process, String hello, EventQueue queue, RequestHandler requests) {
    this.process = process;
    this.queue = queue;
    this.requests = requests;
    this.generation = queue.resendAll();
    this.log = new BridgeLog(process.getErrorStream());
    replies.add(hello);
    this.writer = Bridge.thread("eo-listener-bridge-writer", this::write);
    this.reader = Bridge.thread("eo-listener-bridge-reader", this::read);
    this.logReader = Bridge.thread("eo-listener-bridge-log", log);
  }

  /** Starts the process. IOException: there is no such program, or it is not executable. */
  static BridgeProcess start(
      ProcessBuilder command, String hello, EventQueue queue, RequestHandler requests)
      throws IOException {
    BridgeProcess started = new BridgeProcess(command.start(), hello, queue, requests);
    started.writer.start();
    started.reader.start();
    started.logReader.start();
    return started;
  }

  long pid() {
    return process.pid();
  }

  /** Its first line of the protocol; null until it has come. */
  JsonNode greeting() {
    return greeting;
  }

  /** How many lines it has written that are not of the protocol. */
  int invalidLines() {
    return invalidLines.get();
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

  /** Sends a ping, unless one is still unanswered. */
  void ping() {
    if (isAnswering()) {
      send(Message.ping(lastPing.incrementAndGet()));
    }
  }

  /** Whether every ping so far was answered. */
  boolean isAnswering() {
    return lastPong >= lastPing.get();
  }

  /** Has all queued events sent, then the request to stop with the time left until the deadline. */
  void stop(long deadlineNanos) {
    stopDeadline = deadlineNanos;
    stopping = true;
    queue.wake();
  }

  /** Whether {@link #stop} was called. */
  boolean isStopping() {
    return stopping;
  }

  /** Ends the process at once, also one that is stopped. */
  void kill() {
    process.destroyForcibly();
  }

  /**
   * Waits for its threads, which end with the process, so that all its output is in the log; closes
   * the Kafka clients that it has opened in this JVM.
   */
  void join(long millis) throws InterruptedException {
    queue.wake();
    clients.close();
    for (Thread thread : List.of(logReader, reader, writer)) {
      thread.join(millis);
    }
  }

  private void send(String line) {
    replies.add(line);
    queue.wake();
  }

  private void write() {
    try (OutputStream output = new BufferedOutputStream(process.getOutputStream(), 1 << 16)) {
      boolean stopSent = false;
      while (process.isAlive()) {
        for (String reply = replies.poll(); reply != null; reply = replies.poll()) {
          line(output, reply);
        }
        output.flush();
        boolean mayStop = stopping;
        List<Supplier<String>> lines =
            greeting == null ? List.of() : queue.take(generation, WAIT_MS);
        for (Supplier<String> next : lines) {
          String text = text(next);
          if (text != null) {
            line(output, text);
          }
        }
        if (greeting == null) {
          queue.pause(WAIT_MS); // should this process fail, events stay queued for the next one
        } else if (lines.isEmpty() && mayStop && !stopSent) {
          stopSent = true;
          double left = (stopDeadline - System.nanoTime()) / (double) TimeUnit.SECONDS.toNanos(1);
          line(output, Message.end(Math.max(0.0, left)));
        }
      }
    } catch (IOException | InterruptedException gone) {
      // The process has exited or was killed; its watchdog sees that.
    } catch (Throwable error) {
      invalidLines.incrementAndGet(); // unexpected: replace the process, which would get nothing
    }
  }

  /** An event as JSON; null for one that Spark cannot render, which would fail again and again. */
  private static String text(Supplier<String> event) {
    try {
      return event.get();
    } catch (RuntimeException | LinkageError fault) {
      LOGGER.error("an event of Spark is not committed: Spark cannot write it as JSON", fault);
      return null;
    }
  }

  private static void line(OutputStream output, String text) throws IOException {
    output.write(text.getBytes(StandardCharsets.UTF_8));
    output.write('\n');
  }

  private void read() {
    LineReader lines = new LineReader(process.getInputStream(), MAX_LINE_BYTES);
    int startupLines = 0;
    try {
      for (byte[] line = lines.next(); line != null; line = lines.next()) {
        JsonNode message = Message.parse(line);
        if (greeting != null) {
          dispatch(message);
        } else if (message != null && message.has("v")) {
          log.greeted();
          greeting = message;
          queue.wake();
        } else if (++startupLines > MAX_STARTUP_LINES) {
          invalidLines.incrementAndGet();
        }
      }
    } catch (IOException gone) {
      // The process has exited or was killed; its watchdog sees that.
    } catch (Throwable error) {
      invalidLines.incrementAndGet();
    }
  }

  private void dispatch(JsonNode message) {
    if (message == null) {
      invalidLines.incrementAndGet();
    } else if (message.has("pong")) {
      lastPong = message.path("pong").asLong();
    } else if (message.has("ask")) {
      requests.handle(message, clients, this::send);
    } else if (message.has("forget")) {
      queue.forget(message.path("forget").asText());
    } else {
      invalidLines.incrementAndGet();
    }
  }
}
