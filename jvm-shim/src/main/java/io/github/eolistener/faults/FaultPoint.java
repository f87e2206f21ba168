package io.github.eolistener;

import java.util.function.Consumer;

/**
 * Named places where a test can break this program off; without a test nothing happens there.
 *
 * <p>The system property {@value #PROPERTY} names a class with a public constructor without
 * parameters that is a {@code Consumer<String>}. No such class is part of this jar. The same for
 * Python is {@code eo_listener.fault_points}.
 */
public final class FaultPoint {
  /** Names the class to call; read once, when the first place is reached. */
  public static final String PROPERTY = "eo.listener.fault.points";

  private static final Consumer<String> HOOK = hook(System.getProperty(PROPERTY));

  private FaultPoint() {}

  /** Says that the place called {@code name} was reached; what a test throws there comes out. */
  public static void reached(String name) {
    if (HOOK != null) {
      HOOK.accept(name);
    }
  }

  /**
   * The hook of that class; null for no name.
   *
   * @throws IllegalStateException when the class cannot be used: a test that arms nothing must not
   *     pass
   */
  static Consumer<String> hook(String className) {
    if (className == null || className.isEmpty()) {
      return null;
    }
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      Object made = Class.forName(className, true, loader).getConstructor().newInstance();
      @SuppressWarnings("unchecked") // what it accepts cannot be seen at run time
      Consumer<String> hook = (Consumer<String>) made;
      return hook;
    } catch (ReflectiveOperationException | ClassCastException | LinkageError error) {
      throw new IllegalStateException(PROPERTY + " names " + className, error);
    }
  }
}
