package io.github.eolistener.bridge;

import io.github.eolistener.protocol.LineReader;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Copies the standard error of a bridge process into the driver's log. */
final class BridgeLog implements Runnable {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final Pattern RECORD =
      Pattern.compile("(DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)", Pattern.DOTALL);
  private static final int MAX_LINE_BYTES = 8_192;
  private static final int MAX_LINES_PER_WINDOW = 200;
  private static final long WINDOW = TimeUnit.SECONDS.toNanos(10);
  private static final int MAX_KEPT = 20;

  private final InputStream errors;
  private final Deque<String> last = new ArrayDeque<>();
  private volatile boolean greeted;
  private long windowStart = System.nanoTime();
  private int linesInWindow;

  BridgeLog(InputStream errors) {
    this.errors = errors;
  }

  /** Whether the driver logs at level DEBUG, so that the bridge should too. */
  static boolean isDebug() {
    return LOGGER.isDebugEnabled();
  }

  /** The bridge has started: before that, lines are of an interpreter that may fail to start. */
  void greeted() {
    greeted = true;
  }

  /** The last lines that are not log records: the error of an interpreter that fails. */
  synchronized String lastOutput() {
    return String.join("\n", last);
  }

  @Override
  public void run() {
    LineReader lines = new LineReader(errors, MAX_LINE_BYTES);
    try {
      for (byte[] line = lines.next(); line != null; line = lines.next()) {
        String text = new String(line, StandardCharsets.UTF_8).stripTrailing();
        if (!text.isEmpty()) {
          write(text);
        }
      }
    } catch (IOException ended) {
      LOGGER.debug("the bridge's standard error has ended: {}", ended.toString());
    }
  }

  private void write(String text) {
    Matcher record = RECORD.matcher(text);
    if (!record.matches()) {
      keep(text);
      if (!isOverLimit()) {
        log(greeted ? "WARNING" : "DEBUG", "bridge: " + text);
      }
    } else if (!isOverLimit()) {
      log(record.group(1), record.group(2));
    }
  }

  private static void log(String level, String text) {
    switch (level) {
      case "DEBUG":
        LOGGER.debug("{}", text);
        break;
      case "INFO":
        LOGGER.info("{}", text);
        break;
      case "WARNING":
        LOGGER.warn("{}", text);
        break;
      default:
        LOGGER.error("{}", text);
    }
  }

  private synchronized void keep(String text) {
    last.addLast(text);
    if (last.size() > MAX_KEPT) {
      last.removeFirst();
    }
  }

  private boolean isOverLimit() {
    long now = System.nanoTime();
    if (now - windowStart > WINDOW) {
      if (linesInWindow > MAX_LINES_PER_WINDOW) {
        LOGGER.warn(
            "{} lines of the bridge were not logged: more than {} in 10 s",
            linesInWindow - MAX_LINES_PER_WINDOW,
            MAX_LINES_PER_WINDOW);
      }
      windowStart = now;
      linesInWindow = 0;
    }
    linesInWindow++;
    return linesInWindow > MAX_LINES_PER_WINDOW;
  }
}
