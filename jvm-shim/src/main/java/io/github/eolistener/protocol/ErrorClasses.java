package io.github.eolistener.protocol;

import java.util.ArrayList;
import java.util.List;

/** Describes errors by their classes alone: messages of other libraries may quote a password. */
public final class ErrorClasses {
  private static final int MAX_CAUSES = 6;

  private ErrorClasses() {}

  /** The class of the error and those of its causes, outermost first. */
  public static String of(Throwable error) {
    List<String> names = new ArrayList<>();
    for (Throwable one = error; one != null && names.size() < MAX_CAUSES; one = one.getCause()) {
      names.add(one.getClass().getSimpleName());
    }
    return String.join(", caused by ", names);
  }
}
