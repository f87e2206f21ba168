package io.github.eolistener;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** Which Python runs the bridge. */
class InterpreterTest {
  private static final Map<String, String> ALL =
      Map.of(
          "spark.eo.python", "ours",
          "spark.pyspark.driver.python", "driver",
          "spark.pyspark.python", "both");
  private static final Map<String, String> VARIABLES =
      Map.of("PYSPARK_DRIVER_PYTHON", "variable", "PYSPARK_PYTHON", "other");

  private static String chosen(Map<String, String> conf, Map<String, String> environment) {
    return Interpreter.choose(conf, environment).toString();
  }

  /** The first of all that is set counts, and where it came from is said. */
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

  /** What is set to nothing is not set; space around a name is none of it. */
  @Test
  void readsNamesAsPeopleWriteThem() {
    assertEquals(
        "python3 (from the default)",
        chosen(Map.of("spark.eo.python", " "), Map.of("PYSPARK_PYTHON", "")));
    assertEquals(
        "/opt/python (from spark.eo.python)",
        chosen(Map.of("spark.eo.python", " /opt/python "), Map.of()));
  }

  /** A notebook's front end in the place of the driver's Python is passed over; ours is not. */
  @Test
  void passesOverNotebooks() {
    assertEquals(
        "other (from PYSPARK_PYTHON)",
        chosen(
            Map.of("spark.pyspark.driver.python", "/opt/bin/ipython3"),
            Map.of("PYSPARK_DRIVER_PYTHON", "jupyter-lab", "PYSPARK_PYTHON", "other")));
    assertEquals(
        "ipython (from spark.eo.python)", chosen(Map.of("spark.eo.python", "ipython"), Map.of()));
  }
}
