package io.github.eolistener;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks after one bridge from its start to its end.
 *
 * <p>Patience is counted in looks of one second, not by a clock: a driver that stood still itself
 * (a stopped process, a suspended machine) has not been waiting.
 */
final class Vigil {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final Pattern NO_MODULE = Pattern.compile("No module named '?([\\w.]+)");
  private static final int BAD_SETTINGS = 78; // the bridge ends with it when it refuses spark.eo.*
  private static final int SIGNAL = 128; // exit codes above it are those of a process killed by one
  private static final long LAST_WORDS = 1_000;
  private static final int PING_EVERY = 3;
  private static final int START_PATIENCE = 60;
  private static final int END_PATIENCE = 4; // so that another one still has time to commit

  private final Child child;
  private final Settings settings;
  private final Orders orders;
  private boolean greeted;
  private int patience = START_PATIENCE;
  private int looks;

  Vigil(Child child, Settings settings, Orders orders) {
    this.child = child;
    this.settings = settings;
    this.orders = orders;
    child.onExit(orders::wake);
  }

  /** How many seconds it has run, about. */
  int looks() {
    return looks;
  }

  /** Stays until it is gone, or has to go and is killed. */
  Outcome keep() throws InterruptedException {
    Outcome outcome;
    try {
      outcome = watch();
    } finally {
      child.kill();
      child.join(LAST_WORDS);
    }
    return outcome != null ? outcome : ended();
  }

  /** What is wrong with it; null when it has ended by itself. */
  private Outcome watch() throws InterruptedException {
    boolean endTold = false;
    int silent = 0;
    for (looks = 1; child.isAlive(); looks++) {
      if (!greeted && child.greeting() != null) {
        greeted = true;
        Outcome refused = read(child.greeting());
        if (refused != null) {
          return refused;
        }
      }
      boolean starting = !greeted && orders.isEnd(); // then the time that is left is all it has
      silent = starting || (greeted && child.isAnswering()) ? 0 : silent + 1;
      if (child.garbage() > 0) {
        return broken("what it writes is garbage");
      } else if (silent > (orders.isEnd() ? Math.min(patience, END_PATIENCE) : patience)) {
        return broken("it does not answer");
      } else if (orders.left() <= 0) {
        return broken("it did not end in time");
      }
      if (greeted && (looks % PING_EVERY == 0 || orders.isEnd())) {
        child.ping();
      }
      endTold = endTold || (greeted && endTold());
      orders.await(Math.min(settings.lookMillis, orders.left()));
    }
    return null;
  }

  private boolean endTold() {
    Long at = orders.take(settings.flushMillis());
    if (at != null) {
      child.end(at);
    }
    return at != null;
  }

  /** Takes in what the bridge is. */
  private Outcome read(JsonNode greeting) {
    String theirs = greeting.path("package").asText();
    String versions =
        "the shim is of version " + Settings.version() + ", the package that "
            + settings.interpreter + " has of version " + theirs + ". To do: give Spark the jar"
            + " that `" + settings.interpreter.program + " -m eo_listener jar` names";
    if (greeting.path("v").asInt() != Message.FORMAT) {
      return new Outcome(Outcome.Kind.REFUSED, versions);
    }
    if (!Settings.version().equals(theirs)) {
      LOGGER.warn("{}", versions);
    }
    LOGGER.info("the bridge runs on {}, as process {}", settings.interpreter, child.pid());
    patience = Math.max(1, greeting.path("timeout").asInt(START_PATIENCE / 2));
    settings.flushes(greeting.path("flush"));
    return null;
  }

  /** What its end means; it is a good one where it was asked for. */
  private Outcome ended() {
    int code = child.exitCode();
    if (greeted || code > SIGNAL) {
      boolean good = code == 0 && child.isEnding();
      return good
          ? new Outcome(Outcome.Kind.ENDED, "it was told to")
          : broken("it has ended with exit code " + code);
    }
    String words = child.log.lastWords();
    Matcher module = NO_MODULE.matcher(words);
    if (code == BAD_SETTINGS) {
      return new Outcome(Outcome.Kind.REFUSED, "it does not take these settings");
    } else if (module.find()) {
      return Outcome.notInstalled("it has no module " + module.group(1));
    }
    String last = words.substring(words.lastIndexOf('\n') + 1);
    return Outcome.unusable(
        "it ended with exit code " + code + (last.isEmpty() ? "" : ": " + last),
        settings.interpreter);
  }

  private static Outcome broken(String why) {
    return new Outcome(Outcome.Kind.BROKEN, why);
  }
}
