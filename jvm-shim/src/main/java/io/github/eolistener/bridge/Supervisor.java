package io.github.eolistener;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps one bridge running while there are runs to commit: on a thread of its own, which starts
 * another one when it is gone.
 */
final class Supervisor implements Runnable {
  private static final Logger LOGGER = LoggerFactory.getLogger("io.github.eolistener.Bridge");
  private static final int LONG_LIFE = 60;
  private static final long SHORTEST_PAUSE = 100;
  private static final long SHORT_PAUSE = 500;
  private static final long LONG_PAUSE = TimeUnit.MINUTES.toMillis(1);
  private static final long LONGEST_PAUSE = TimeUnit.MINUTES.toMillis(5);

  private final Settings settings;
  private final Mailbox mailbox;
  private final Clerk clerk;
  private final Orders orders = new Orders();
  private final Thread thread = Bridge.thread("eo-listener-bridge", this);

  private volatile String said = "";
  private long pause = SHORT_PAUSE;
  private Outcome.Kind last;

  Supervisor(Settings settings, Mailbox mailbox, Clerk clerk) {
    this.settings = settings;
    this.mailbox = mailbox;
    this.clerk = clerk;
  }

  void start() {
    thread.start();
  }

  /** Has the bridge commit what is left and go; returns when it is gone, or a little after then. */
  void end(long atNanos) throws InterruptedException {
    orders.end(atNanos);
    mailbox.hurry();
    thread.join(Math.max(1, orders.left()) + TimeUnit.SECONDS.toMillis(1));
  }

  /** Ends this bridge in good order and starts another, which knows only the runs that are left. */
  void renew() {
    orders.renew();
  }

  /** What it has told the user last, of what stands in the way. */
  String said() {
    return said;
  }

  @Override
  public void run() {
    try {
      mailbox.awaitRun();
      while (isNeeded()) {
        after(life());
        mailbox.awaitRun();
      }
    } catch (InterruptedException ended) {
      LOGGER.debug("the supervisor of the bridge was interrupted");
    } catch (Throwable error) {
      LOGGER.error("eo_listener commits no more in this driver; queries run on", error);
    } finally {
      mailbox.close();
      clerk.close();
    }
  }

  /** At the end one more is started only if the last one ran, and was cut off. */
  private boolean isNeeded() {
    if (last == Outcome.Kind.REFUSED) {
      return false;
    }
    boolean promising = last == null || last == Outcome.Kind.BROKEN;
    return !orders.isEnd() || (promising && !mailbox.isEmpty() && orders.left() > 0);
  }

  private Outcome life() throws InterruptedException {
    Child child;
    try {
      child = Child.start(settings.command(), settings.hello(), mailbox, clerk);
    } catch (IOException missing) {
      return Outcome.notInstalled(
          "there is no such program, or it cannot be run (" + missing.getMessage() + ")");
    }
    Vigil vigil = new Vigil(child, settings, orders);
    Outcome outcome = vigil.keep();
    if (vigil.looks() > LONG_LIFE) {
      pause = SHORT_PAUSE;
    }
    return outcome;
  }

  private void after(Outcome outcome) throws InterruptedException {
    last = outcome.kind;
    switch (outcome.kind) {
      case ENDED:
        if (!orders.isEnd()) {
          last = null; // a renewal
        }
        break;
      case BROKEN:
        LOGGER.warn("the bridge is gone: {}. Queries run on, another one takes over", outcome.why);
        rest(pause);
        break;
      case UNUSABLE:
        say(
            "eo_listener cannot run on " + settings.interpreter + ": " + outcome.why
                + ". Nothing is committed until it can; queries run on. To do: " + outcome.fix);
        pause = Math.max(pause, LONG_PAUSE);
        rest(pause);
        break;
      default:
        say("eo_listener commits nothing in this driver, queries run on: " + outcome.why);
        mailbox.close();
    }
  }

  /** Says something once, until something else is to be said. */
  private void say(String what) {
    if (what.equals(said)) {
      LOGGER.debug("{}", what);
    } else {
      said = what;
      LOGGER.error("{}", what);
    }
  }

  /** Waits before the next start, longer each time; hardly at all when the end is near. */
  private void rest(long millis) throws InterruptedException {
    pause = Math.min(pause * 2, LONGEST_PAUSE);
    orders.await(SHORTEST_PAUSE);
    long began = System.nanoTime();
    long left = millis;
    while (!orders.isEnd() && left > 0) {
      orders.await(Math.min(left, LONGEST_PAUSE));
      left = millis - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    }
  }
}
