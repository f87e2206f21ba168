package io.github.eolistener.faults;

import java.util.function.Consumer;

/**
 * Named places where a test can make this program fail; without a test nothing happens there.
 *
 * <p>The system property {@value #PROPERTY} names a class with a public constructor without
 * parameters that is a {@code Consumer<String>}. No such class is part of this jar. Python has the
 * same in {@code fault_points}.
 */
public final class FaultPoint {
  /** Names the class to call; read once, when the first place is reached. */
  public static final String PROPERTY = "eo.listener.fault.points";

  private static final Consumer<String> HOOK = hook(System.getProperty(PROPERTY));

  private FaultPoint() {}

  /** Reports that the place {@code name} was reached; throws what the hook of a test throws. */
  public static void reached(String name) {
    if (HOOK != null) {
      HOOK.accept(name);
    }
  }

  /**
   * The hook of that class; null for no name.
   *
   * @throws IllegalStateException when the class cannot be used: a test whose faults are not
   *     installed must not pass
   */
  static Consumer<String> hook(String className) {
    if (className == null || className.isEmpty()) {
      return null;
    }
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      Object instance = Class.forName(className, true, loader).getConstructor().newInstance();
      @SuppressWarnings("unchecked") // the type argument does not exist at run time
      Consumer<String> hook = (Consumer<String>) instance;
      return hook;
    } catch (ReflectiveOperationException | ClassCastException | LinkageError error) {
      throw new IllegalStateException(PROPERTY + " names " + className, error);
    }
  }
}
