package io.github.eolistener;

import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * Kafka's delegation tokens, which Spark obtains and renews, put into the properties of a client
 * as Spark's own source does it: by {@code org.apache.spark.kafka010.KafkaConfigUpdater}.
 *
 * <p>That class and its parameter are Scala, and of another version in each Spark, so both are
 * found by name.
 */
final class DelegationTokens {
  private static final String UPDATER = "org.apache.spark.kafka010.KafkaConfigUpdater";
  private static final String SCALA_MAP = "scala.collection.immutable.Map";

  private static final String CLUSTERS = "spark.kafka.clusters";
  private static final String AUTHORITY = ".auth.bootstrap.servers";
  private static final String TARGET = ".target.bootstrap.servers.regex";

  private DelegationTokens() {}

  /** {@value #CLUSTERS} where Spark is configured to use a token for these servers; else empty. */
  static Optional<String> configured(String servers) {
    if (SparkEnv.get() == null || servers == null) {
      return Optional.empty();
    }
    SparkConf conf = SparkEnv.get().conf();
    boolean any =
        Arrays.stream((Object[]) new LiveObject(conf).ask("getAll").get())
            .map(pair -> new LiveObject(pair).ask("_1").get().toString())
            .filter(key -> key.startsWith(CLUSTERS + ".") && key.endsWith(AUTHORITY))
            .map(key -> key.substring(0, key.length() - AUTHORITY.length()))
            .map(cluster -> Pattern.compile(conf.get(cluster + TARGET, ".*")))
            .anyMatch(target -> Arrays.stream(servers.split(",")).anyMatch(matching(target)));
    return any ? Optional.of(CLUSTERS) : Optional.empty();
  }

  private static Predicate<String> matching(Pattern target) {
    return server -> target.matcher(server.trim()).matches();
  }

  /** The properties with a token's login where Spark has a token for these brokers. */
  static Map<String, ?> added(Map<String, String> properties) {
    if (SparkEnv.get() == null || !properties.containsKey("bootstrap.servers")) {
      return properties; // there it reads the tokens' settings; by these it tells clusters apart
    }
    ClassLoader loader = DelegationTokens.class.getClassLoader();
    Class<?> type;
    try {
      type = Class.forName(UPDATER, true, loader);
    } catch (ClassNotFoundException none) {
      return properties; // without this part of the connector Spark itself has no tokens
    }
    try {
      Class<?> map = Class.forName(SCALA_MAP, true, loader);
      Object updater =
          type.getConstructor(String.class, map)
              .newInstance("eo-listener", scalaMap(map, loader, properties));
      Object updated = type.getMethod("setAuthenticationConfigIfNeeded").invoke(updater);
      @SuppressWarnings("unchecked") // what Spark's method declares
      Map<String, ?> built = (Map<String, ?>) type.getMethod("build").invoke(updated);
      return built;
    } catch (InvocationTargetException failed) {
      throw new Refusal(
          "Spark could not put its delegation token into the client's properties: "
              + Failure.classes(failed.getCause()));
    } catch (ReflectiveOperationException other) {
      throw new Refusal(
          "this Spark applies delegation tokens in a way that is not known here: "
              + Failure.classes(other));
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
