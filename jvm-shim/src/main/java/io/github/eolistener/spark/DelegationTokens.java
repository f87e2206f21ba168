package io.github.eolistener.spark;

import io.github.eolistener.protocol.ErrorClasses;
import io.github.eolistener.protocol.RefusedException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * Adds the delegation token that Spark obtained to the properties of a Kafka client, as Spark's own
 * source does: by {@code org.apache.spark.kafka010.KafkaConfigUpdater}.
 *
 * <p>That class and its parameter are of another Scala version in each Spark, so both are found by
 * name.
 */
public final class DelegationTokens {
  private static final String UPDATER = "org.apache.spark.kafka010.KafkaConfigUpdater";
  private static final String SCALA_MAP = "scala.collection.immutable.Map";

  private static final String CLUSTERS = "spark.kafka.clusters";
  private static final String AUTHORITY = ".auth.bootstrap.servers";
  private static final String TARGET = ".target.bootstrap.servers.regex";

  private DelegationTokens() {}

  /** {@value #CLUSTERS} where Spark is configured to use a token for these brokers; else empty. */
  public static Optional<String> configured(String servers) {
    SparkEnv spark = environment();
    if (spark == null || servers == null) {
      return Optional.empty();
    }
    SparkConf conf = spark.conf();
    boolean any =
        Arrays.stream((Object[]) new SparkObject(conf).call("getAll").get())
            .map(pair -> new SparkObject(pair).call("_1").get().toString())
            .filter(key -> key.startsWith(CLUSTERS + ".") && key.endsWith(AUTHORITY))
            .map(key -> key.substring(0, key.length() - AUTHORITY.length()))
            .map(cluster -> Pattern.compile(conf.get(cluster + TARGET, ".*")))
            .anyMatch(target -> Arrays.stream(servers.split(",")).anyMatch(matching(target)));
    return any ? Optional.of(CLUSTERS) : Optional.empty();
  }

  /** Null where no application runs in this JVM, and where it has no Spark at all. */
  private static SparkEnv environment() {
    try {
      return SparkEnv.get();
    } catch (NoClassDefFoundError absent) {
      return null;
    }
  }

  private static Predicate<String> matching(Pattern target) {
    return server -> target.matcher(server.trim()).matches();
  }

  /** The properties, with the login by token where Spark has a token for these brokers. */
  public static Map<String, ?> withToken(Map<String, String> properties) {
    if (environment() == null || !properties.containsKey("bootstrap.servers")) {
      return properties; // Spark reads its settings there, and finds the cluster by these
    }
    ClassLoader loader = DelegationTokens.class.getClassLoader();
    Class<?> type;
    try {
      type = Class.forName(UPDATER, true, loader);
    } catch (ClassNotFoundException absent) {
      return properties; // without it Spark itself does not use tokens
    }
    try {
      Class<?> map = Class.forName(SCALA_MAP, true, loader);
      Object updater =
          type.getConstructor(String.class, map)
              .newInstance("eo-listener", scalaMap(map, loader, properties));
      Object updated = type.getMethod("setAuthenticationConfigIfNeeded").invoke(updater);
      @SuppressWarnings("unchecked") // the declared type of Spark's method
      Map<String, ?> built = (Map<String, ?>) type.getMethod("build").invoke(updated);
      return built;
    } catch (InvocationTargetException failed) {
      throw new RefusedException(
          "Spark failed to add its delegation token to the client's properties: "
              + ErrorClasses.of(failed.getCause()));
    } catch (ReflectiveOperationException other) {
      throw new RefusedException(
          "this version of Spark applies delegation tokens in an unsupported way: "
              + ErrorClasses.of(other));
    }
  }

  private static Object scalaMap(Class<?> type, ClassLoader loader, Map<String, String> entries)
      throws ReflectiveOperationException {
    Class<?> companion = Class.forName(SCALA_MAP + "$", true, loader);
    Object map = companion.getMethod("empty").invoke(companion.getField("MODULE$").get(null));
    for (Map.Entry<String, String> entry : entries.entrySet()) {
      map =
          type.getMethod("updated", Object.class, Object.class)
              .invoke(map, entry.getKey(), entry.getValue());
    }
    return map;
  }
}
