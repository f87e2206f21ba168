package io.github.eolistener.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.protocol.Message;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Watches one bridge process from its start to its exit, and kills it when it does not answer.
 *
 * <p>Time-outs are counted in checks, one a second, not by a clock: a driver that was itself
 * stopped or suspended has not been waiting.
 */
final class BridgeWatchdog {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final Pattern NO_MODULE = Pattern.compile("No module named '?([\\w.]+)");
  private static final int BAD_SETTINGS = 78; // the exit code for spark.eo.* that are rejected
  private static final int SIGNAL = 128; // greater exit codes: killed by a signal
  private static final long JOIN_MS = 1_000;
  private static final int CHECKS_PER_PING = 3;
  private static final int START_CHECKS = 60;
  private static final int STOP_CHECKS = 4; // so that a replacement still has time to commit

  private final BridgeProcess process;
  private final BridgeSettings settings;
  private final LifecycleSignal signal;
  private boolean greeted;
  private int maxSilentChecks = START_CHECKS;
  private int checks;

  BridgeWatchdog(BridgeProcess process, BridgeSettings settings, LifecycleSignal signal) {
    this.process = process;
    this.settings = settings;
    this.signal = signal;
    process.onExit(signal::wake);
  }

  /** How many checks it has made: about the seconds that the process has run. */
  int checks() {
    return checks;
  }

  /** Returns when the process has exited, or had to be killed. */
  ExitReason awaitExit() throws InterruptedException {
    ExitReason reason;
    try {
      reason = watch();
    } finally {
      process.kill();
      process.join(JOIN_MS);
    }
    return reason != null ? reason : exited();
  }

  /** Why the process must be killed; null when it has exited by itself. */
  private ExitReason watch() throws InterruptedException {
    boolean stopSent = false;
    int silentChecks = 0;
    for (checks = 1; process.isAlive(); checks++) {
      ExitReason rejected = readGreeting();
      if (rejected != null) {
        return rejected;
      }
      // While it starts up after a stop was requested, only the deadline counts.
      boolean starting = !greeted && signal.isStopRequested();
      silentChecks = starting || (greeted && process.isAnswering()) ? 0 : silentChecks + 1;
      if (process.invalidLines() > 0) {
        return failed("it wrote lines that are not of the protocol");
      } else if (silentChecks > maxSilentChecks()) {
        return failed("it did not answer in time");
      } else if (signal.millisLeft() <= 0) {
        return failed("it did not stop in time");
      }
      if (greeted && (checks % CHECKS_PER_PING == 0 || signal.isStopRequested())) {
        process.ping();
      }
      stopSent = stopSent || (greeted && sendStop());
      signal.await(Math.min(settings.checkMillis, signal.millisLeft()));
    }
    return null;
  }

  private int maxSilentChecks() {
    return signal.isStopRequested() ? Math.min(maxSilentChecks, STOP_CHECKS) : maxSilentChecks;
  }

  private boolean sendStop() {
    Long deadline = signal.takeDeadline(settings.flushMillis());
    if (deadline != null) {
      process.stop(deadline);
    }
    return deadline != null;
  }

  private ExitReason readGreeting() {
    if (greeted || process.greeting() == null) {
      return null;
    }
    greeted = true;
    return read(process.greeting());
  }

  /**
   * Reads the first line of the process: its version and its settings; null when it can be used.
   */
  private ExitReason read(JsonNode greeting) {
    String theirs = greeting.path("package").asText();
    String versions =
        "the shim has version " + BridgeSettings.version() + ", the package of "
            + settings.interpreter + " has version " + theirs;
    String fix =
        "give Spark the jar that `" + settings.interpreter.program
            + " -m eo_listener jar` prints";
    if (greeting.path("v").asInt() != Message.FORMAT) {
      return new ExitReason(ExitReason.Kind.REJECTED, versions, fix);
    }
    if (!BridgeSettings.version().equals(theirs)) {
      LOGGER.warn("versions differ: {}. Fix: {}", versions, fix);
    }
    LOGGER.info("the bridge runs on {}, as process {}", settings.interpreter, process.pid());
    maxSilentChecks = Math.max(1, greeting.path("timeout").asInt(START_CHECKS / 2));
    settings.setFlushSeconds(greeting.path("flush"));
    return null;
  }

  /** What its exit means. */
  private ExitReason exited() {
    int code = process.exitCode();
    ExitReason rejected = readGreeting(); // it may have exited before the next check
    if (rejected != null) {
      return rejected;
    }
    if (greeted || code > SIGNAL) {
      boolean requested = code == 0 && process.isStopping();
      return requested
          ? new ExitReason(ExitReason.Kind.REQUESTED, "a stop was requested")
          : failed("it ended with exit code " + code);
    }
    String output = process.log.lastOutput();
    Matcher module = NO_MODULE.matcher(output);
    if (code == BAD_SETTINGS) {
      return new ExitReason(
          ExitReason.Kind.REJECTED,
          "the bridge rejects its settings",
          "see the error that it logged before this line");
    } else if (module.find()) {
      return ExitReason.notInstalled("it has no module " + module.group(1));
    }
    String last = output.substring(output.lastIndexOf('\n') + 1);
    return ExitReason.unusable(
        "it ended with exit code " + code + (last.isEmpty() ? "" : ": " + last),
        settings.interpreter);
  }

  private static ExitReason failed(String cause) {
    return new ExitReason(ExitReason.Kind.FAILED, cause);
  }
}
