package io.github.eolistener;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;

/** What the driver's configuration says of the bridge. Its values may be secrets. */
final class Settings {
  private static final String PREFIX = "spark.eo.";
  private static final List<String> MODULE = List.of("-m", "eo_listener.bridge");

  final Interpreter interpreter;
  final long lookMillis;

  private final Map<String, String> ours;
  private final List<String> arguments;
  private volatile long flushMillis = TimeUnit.SECONDS.toMillis(10);

  /** With the time between two looks at a bridge, a second but in tests. */
  Settings(
      Interpreter interpreter, List<String> arguments, Map<String, String> ours, long lookMillis) {
    this.interpreter = interpreter;
    this.arguments = arguments;
    this.ours = ours;
    this.lookMillis = lookMillis;
  }

  /** Of a configuration, or of none. */
  static Settings of(SparkConf conf) {
    Map<String, String> all = new TreeMap<>();
    if (conf != null) {
      for (Object pair : (Object[]) new LiveObject(conf).ask("getAll").get()) {
        LiveObject setting = new LiveObject(pair);
        all.put((String) setting.ask("_1").get(), (String) setting.ask("_2").get());
      }
    }
    Interpreter interpreter = Interpreter.choose(all, System.getenv());
    all.keySet().removeIf(key -> !key.startsWith(PREFIX));
    return new Settings(interpreter, MODULE, all, TimeUnit.SECONDS.toMillis(1));
  }

  /** The version of this jar; "unknown" where its classes come from a folder. */
  static String version() {
    return Optional.ofNullable(Settings.class.getPackage().getImplementationVersion())
        .orElse("unknown");
  }

  /** How long an end may take: ten seconds, until a bridge has read the settings. */
  long flushMillis() {
    return flushMillis;
  }

  /** Takes in what a bridge has read, in seconds. */
  void flushes(JsonNode seconds) {
    if (seconds.isNumber()) {
      flushMillis = (long) (seconds.asDouble() * TimeUnit.SECONDS.toMillis(1));
    }
  }

  /** The first line that a bridge is sent. */
  String hello() {
    return Message.hello(version(), BridgeLog.isDebug(), ours);
  }

  /** The command of a bridge. */
  ProcessBuilder command() {
    List<String> words = new ArrayList<>(List.of(interpreter.program));
    words.addAll(arguments);
    ProcessBuilder command = new ProcessBuilder(words);
    Map<String, String> environment = command.environment();
    environment.put("PYTHONSAFEPATH", "1"); // no module of ours is taken from where the driver runs
    environment.remove("PYSPARK_GATEWAY_SECRET"); // the keys to this JVM, where it was given any
    environment.remove("PYSPARK_GATEWAY_PORT");
    return command;
  }
}
