package io.github.eolistener.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * One of Spark's internal objects, whose methods are called by name.
 *
 * <p>Spark moved these classes to another package in 4.1 and compiles them for two Scala versions,
 * but kept the names of their accessors. So nothing here is linked against them.
 *
 * <p>Error messages name classes and methods only: the objects hold the user's passwords.
 */
public final class SparkObject {
  private final Object target;

  public SparkObject(Object target) {
    this.target = target;
  }

  public Object get() {
    return target;
  }

  String className() {
    return target.getClass().getName();
  }

  /** What the method {@code name} returns; it must exist and not return null. */
  public SparkObject call(String name) {
    return tryCall(name).orElseThrow(() -> isNull(name));
  }

  /** What the method {@code name} returns for a number; it must exist and not return null. */
  public SparkObject call(String name, long argument) {
    try {
      Method method = target.getClass().getMethod(name, long.class);
      return invoke(method, argument).orElseThrow(() -> isNull(name));
    } catch (NoSuchMethodException absent) {
      throw new IllegalStateException(className() + " has no " + name + "(long)");
    }
  }

  /** What the method {@code name} returns; empty when there is no such method or it is null. */
  public Optional<SparkObject> tryCall(String name) {
    try {
      return invoke(target.getClass().getMethod(name));
    } catch (NoSuchMethodException absent) {
      return Optional.empty();
    }
  }

  private Optional<SparkObject> invoke(Method method, Object... arguments) {
    String name = method.getName();
    try {
      // The method is public, but its class may not be: Scala's iterators are anonymous classes.
      method.setAccessible(true);
      return Optional.ofNullable(method.invoke(target, arguments)).map(SparkObject::new);
    } catch (InvocationTargetException failed) {
      // Its message may quote an option's value, so only its class is passed on.
      String kind = failed.getCause().getClass().getName();
      throw new IllegalStateException(className() + "." + name + "() failed: " + kind);
    } catch (ReflectiveOperationException | RuntimeException refused) {
      String kind = refused.getClass().getName();
      throw new IllegalStateException(className() + "." + name + "() cannot be called: " + kind);
    }
  }

  private IllegalStateException isNull(String name) {
    return new IllegalStateException(
        className() + "." + name + "() does not exist or returned null");
  }

  /** The elements of a Scala collection, in its order. */
  public List<SparkObject> elements() {
    SparkObject iterator = call("iterator");
    List<SparkObject> found = new ArrayList<>();
    while (Boolean.TRUE.equals(iterator.call("hasNext").get())) {
      found.add(iterator.call("next"));
    }
    return found;
  }
}
