package io.github.eolistener;

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

/** What a bridge writes to its standard error, as lines of the driver's log. */
final class BridgeLog implements Runnable {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final Pattern RECORD =
      Pattern.compile("(DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)", Pattern.DOTALL);
  private static final int LONGEST = 8_192;
  private static final int LINES_IN_A_WINDOW = 200;
  private static final long WINDOW = TimeUnit.SECONDS.toNanos(10);
  private static final int KEPT = 20;

  private final InputStream errors;
  private final Deque<String> last = new ArrayDeque<>();
  private volatile boolean greeted;
  private long windowBegan = System.nanoTime();
  private int linesInWindow;

  BridgeLog(InputStream errors) {
    this.errors = errors;
  }

  /** Whether somebody wants to see how it comes to its decisions. */
  static boolean isDebug() {
    return LOGGER.isDebugEnabled();
  }

  /** From now on it is our program that speaks: before, the interpreter may only fail to start. */
  void greeted() {
    greeted = true;
  }

  /** The last lines that are no records of our own: what an interpreter says when it fails. */
  synchronized String lastWords() {
    return String.join("\n", last);
  }

  @Override
  public void run() {
    LineReader lines = new LineReader(errors, LONGEST);
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
      if (!isTooMuch()) {
        log(greeted ? "WARNING" : "DEBUG", "bridge: " + text);
      }
    } else if (!isTooMuch()) {
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
    if (last.size() > KEPT) {
      last.removeFirst();
    }
  }

  private boolean isTooMuch() {
    long now = System.nanoTime();
    if (now - windowBegan > WINDOW) {
      if (linesInWindow > LINES_IN_A_WINDOW) {
        LOGGER.warn("{} lines of the bridge were left out", linesInWindow - LINES_IN_A_WINDOW);
      }
      windowBegan = now;
      linesInWindow = 0;
    }
    linesInWindow++;
    return linesInWindow > LINES_IN_A_WINDOW;
  }
}
