package io.github.eolistener.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.protocol.Message;
import io.github.eolistener.spark.SparkObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;

/** The bridge's part of the driver's configuration. Its values may be secrets. */
final class BridgeSettings {
  private static final String PREFIX = "spark.eo.";
  private static final List<String> MODULE = List.of("-m", "eo_listener.bridge");

  final PythonInterpreter interpreter;
  final long checkMillis;

  private final Map<String, String> conf;
  private final List<String> arguments;
  private volatile long flushMillis = TimeUnit.SECONDS.toMillis(10);

  /** {@code checkMillis}: the time between two checks of the process, a second except in tests. */
  BridgeSettings(
      PythonInterpreter interpreter,
      List<String> arguments,
      Map<String, String> conf,
      long checkMillis) {
    this.interpreter = interpreter;
    this.arguments = arguments;
    this.conf = conf;
    this.checkMillis = checkMillis;
  }

  /** {@code conf} may be null. */
  static BridgeSettings of(SparkConf conf) {
    Map<String, String> all = new TreeMap<>();
    if (conf != null) {
      for (Object pair : (Object[]) new SparkObject(conf).call("getAll").get()) {
        SparkObject setting = new SparkObject(pair);
        all.put((String) setting.call("_1").get(), (String) setting.call("_2").get());
      }
    }
    PythonInterpreter interpreter = PythonInterpreter.choose(all, System.getenv());
    all.keySet().removeIf(key -> !key.startsWith(PREFIX));
    return new BridgeSettings(interpreter, MODULE, all, TimeUnit.SECONDS.toMillis(1));
  }

  /** The version of this jar; "unknown" where its classes were loaded from a folder. */
  static String version() {
    return Optional.ofNullable(BridgeSettings.class.getPackage().getImplementationVersion())
        .orElse("unknown");
  }

  /** How long a stop may take: ten seconds, until a bridge has read the settings. */
  long flushMillis() {
    return flushMillis;
  }

  /** The time-out that the bridge has read from the settings. */
  void setFlushSeconds(JsonNode seconds) {
    if (seconds.isNumber()) {
      flushMillis = (long) (seconds.asDouble() * TimeUnit.SECONDS.toMillis(1));
    }
  }

  /** The first line that the bridge is sent. */
  String hello() {
    return Message.hello(version(), BridgeLog.isDebug(), conf);
  }

  /** The command that starts the bridge. */
  ProcessBuilder command() {
    List<String> commandLine = new ArrayList<>(List.of(interpreter.program));
    commandLine.addAll(arguments);
    ProcessBuilder command = new ProcessBuilder(commandLine);
    Map<String, String> environment = command.environment();
    environment.put("PYTHONSAFEPATH", "1"); // imports nothing from the driver's working directory
    environment.remove("PYSPARK_GATEWAY_SECRET"); // they would give access to this JVM
    environment.remove("PYSPARK_GATEWAY_PORT");
    return command;
  }
}
