package io.github.eolistener.bridge;

import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The Python that runs the bridge, and the setting that names it. */
final class PythonInterpreter {
  static final String SETTING = "spark.eo.python";

  private static final List<String> SETTINGS =
      List.of(SETTING, "spark.pyspark.driver.python", "spark.pyspark.python");
  private static final List<String> VARIABLES = List.of("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON");
  private static final String DEFAULT = "python3";

  final String program;
  final String origin;

  private PythonInterpreter(String program, String origin) {
    this.program = program;
    this.origin = origin;
  }

  /** Our own setting, else the first that is set of those where Spark finds the driver's Python. */
  static PythonInterpreter choose(Map<String, String> conf, Map<String, String> environment) {
    for (String key : SETTINGS) {
      if (isPython(conf.get(key), key)) {
        return new PythonInterpreter(conf.get(key).trim(), key);
      }
    }
    for (String name : VARIABLES) {
      if (isPython(environment.get(name), name)) {
        return new PythonInterpreter(environment.get(name).trim(), name);
      }
    }
    return new PythonInterpreter(DEFAULT, "the default");
  }

  /** Notebooks set their front end as the driver's Python, which cannot run a module. */
  private static boolean isPython(String value, String origin) {
    if (value == null || value.isBlank()) {
      return false;
    }
    String name = value.trim().toLowerCase(Locale.ROOT);
    name = name.substring(name.lastIndexOf('/') + 1);
    boolean frontEnd = name.startsWith("jupyter") || name.startsWith("ipython");
    return origin.equals(SETTING) || !frontEnd;
  }

  @Override
  public String toString() {
    return program + " (from " + origin + ")";
  }
}
