package io.github.eolistener;

import java.util.ArrayList;
import java.util.List;

/** What went wrong, by classes alone: messages of others may quote a password. */
final class Failure {
  private static final int DEPTH = 6;

  private Failure() {}

  /** The class of the error and those of its causes, outermost first. */
  static String classes(Throwable error) {
    List<String> names = new ArrayList<>();
    for (Throwable one = error; one != null && names.size() < DEPTH; one = one.getCause()) {
      names.add(one.getClass().getSimpleName());
    }
    return String.join(", caused by ", names);
  }
}
