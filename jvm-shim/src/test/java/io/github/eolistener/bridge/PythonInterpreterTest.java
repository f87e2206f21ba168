package io.github.eolistener.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** Which Python runs the bridge. */
class PythonInterpreterTest {
  private static final Map<String, String> ALL =
      Map.of(
          "spark.eo.python", "ours",
          "spark.pyspark.driver.python", "driver",
          "spark.pyspark.python", "both");
  private static final Map<String, String> VARIABLES =
      Map.of("PYSPARK_DRIVER_PYTHON", "variable", "PYSPARK_PYTHON", "other");

  private static String chosen(Map<String, String> conf, Map<String, String> environment) {
    return PythonInterpreter.choose(conf, environment).toString();
  }

  /** The first setting of all is used, and named. */
  @Test
  void takesTheFirstThatIsSet() {
    assertEquals("ours (from spark.eo.python)", chosen(ALL, VARIABLES));
    assertEquals(
        "driver (from spark.pyspark.driver.python)",
        chosen(
            Map.of("spark.pyspark.driver.python", "driver", "spark.pyspark.python", "both"),
            VARIABLES));
    assertEquals(
        "both (from spark.pyspark.python)",
        chosen(Map.of("spark.pyspark.python", "both"), VARIABLES));
    assertEquals("variable (from PYSPARK_DRIVER_PYTHON)", chosen(Map.of(), VARIABLES));
    assertEquals(
        "other (from PYSPARK_PYTHON)", chosen(Map.of(), Map.of("PYSPARK_PYTHON", "other")));
    assertEquals("python3 (from the default)", chosen(Map.of(), Map.of()));
  }

  /** A blank setting is not set; surrounding space is ignored. */
  @Test
  void ignoresSpace() {
    assertEquals(
        "python3 (from the default)",
        chosen(Map.of("spark.eo.python", " "), Map.of("PYSPARK_PYTHON", "")));
    assertEquals(
        "/opt/python (from spark.eo.python)",
        chosen(Map.of("spark.eo.python", " /opt/python "), Map.of()));
  }

  /** A notebook's front end is ignored as the driver's Python, but not in our own setting. */
  @Test
  void ignoresNotebooks() {
    assertEquals(
        "other (from PYSPARK_PYTHON)",
        chosen(
            Map.of("spark.pyspark.driver.python", "/opt/bin/ipython3"),
            Map.of("PYSPARK_DRIVER_PYTHON", "jupyter-lab", "PYSPARK_PYTHON", "other")));
    assertEquals(
        "ipython (from spark.eo.python)", chosen(Map.of("spark.eo.python", "ipython"), Map.of()));
  }
}
