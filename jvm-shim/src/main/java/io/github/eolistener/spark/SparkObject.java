package io.github.eolistener;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * One of Spark's own objects, asked by method name.
 *
 * <p>Spark moved these classes to another package in 4.1 and compiles them for two Scala versions;
 * the names of their accessors stayed. So nothing here is linked against them.
 *
 * <p>Messages name classes and methods only: the objects hold the user's passwords.
 */
final class LiveObject {
  private final Object target;

  LiveObject(Object target) {
    this.target = target;
  }

  Object get() {
    return target;
  }

  String className() {
    return target.getClass().getName();
  }

  /** The answer of the method {@code name}, which must exist and give something. */
  LiveObject ask(String name) {
    return find(name)
        .orElseThrow(
            () -> new IllegalStateException(className() + "." + name + "() gives nothing"));
  }

  /** The answer of the method {@code name} to one number; it must exist and give something. */
  LiveObject ask(String name, long argument) {
    try {
      Method method = target.getClass().getMethod(name, long.class);
      return invoke(method, argument)
          .orElseThrow(
              () -> new IllegalStateException(className() + "." + name + "() gives nothing"));
    } catch (NoSuchMethodException absent) {
      throw new IllegalStateException(className() + " has no " + name + "(long)");
    }
  }

  /** The answer of the method {@code name}; empty when there is no such method or it gives null. */
  Optional<LiveObject> find(String name) {
    try {
      return invoke(target.getClass().getMethod(name));
    } catch (NoSuchMethodException absent) {
      return Optional.empty();
    }
  }

  private Optional<LiveObject> invoke(Method method, Object... arguments) {
    String name = method.getName();
    try {
      // The method is public, but its class may not be: Scala's iterators are anonymous classes.
      method.setAccessible(true);
      return Optional.ofNullable(method.invoke(target, arguments)).map(LiveObject::new);
    } catch (InvocationTargetException failed) {
      // Its message may quote an option's value, so only its class goes on.
      String kind = failed.getCause().getClass().getName();
      throw new IllegalStateException(className() + "." + name + "() failed: " + kind);
    } catch (ReflectiveOperationException | RuntimeException refused) {
      String kind = refused.getClass().getName();
      throw new IllegalStateException(className() + "." + name + "() cannot be called: " + kind);
    }
  }

  /** The elements of a Scala collection, in its order. */
  List<LiveObject> elements() {
    LiveObject iterator = ask("iterator");
    List<LiveObject> found = new ArrayList<>();
    while (Boolean.TRUE.equals(iterator.ask("hasNext").get())) {
      found.add(iterator.ask("next"));
    }
    return found;
  }
}
