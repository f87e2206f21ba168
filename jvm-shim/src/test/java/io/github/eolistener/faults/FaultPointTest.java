package io.github.eolistener.faults;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FaultPointTest {
  /** What a test puts on the class path. */
  public static final class Hook implements Consumer<String> {
    static final List<String> REACHED = new ArrayList<>();

    @Override
    public void accept(String name) {
      REACHED.add(name);
      if (name.equals("halt")) {
        Runtime.getRuntime().halt(7);
      }
    }
  }

  /** A program that passes two places, for a JVM of its own. */
  public static final class Program {
    public static void main(String[] arguments) {
      FaultPoint.reached("here");
      FaultPoint.reached("halt");
    }
  }

  @Test
  @DisplayName("Without a hook a place does nothing")
  void noHook() {
    assertDoesNotThrow(() -> FaultPoint.reached("halt"));
    assertNull(FaultPoint.hook(null));
    assertNull(FaultPoint.hook(""));
    assertTrue(Hook.REACHED.isEmpty());
  }

  @Test
  @DisplayName("The named class is called with the name of the place")
  void named() {
    FaultPoint.hook(Hook.class.getName()).accept("x");
    assertEquals(List.of("x"), Hook.REACHED);
    Hook.REACHED.clear();
  }

  @Test
  @DisplayName("A class that is missing or is not a consumer is an error")
  void unusable() {
    assertThrows(IllegalStateException.class, () -> FaultPoint.hook("no.such.Hook"));
    assertThrows(IllegalStateException.class, () -> FaultPoint.hook("java.lang.Object"));
    assertThrows(IllegalStateException.class, () -> FaultPoint.hook("java.lang.Integer"));
  }

  @Test
  @DisplayName("The system property installs the hook for a whole JVM")
  void property(@TempDir Path folder) throws IOException, InterruptedException {
    assertEquals(7, run(folder, "-D" + FaultPoint.PROPERTY + "=" + Hook.class.getName()));
    assertEquals(0, run(folder, "-Dother=" + Hook.class.getName()));
    assertEquals(1, run(folder, "-D" + FaultPoint.PROPERTY + "=no.such.Hook"));
  }

  private static int run(Path folder, String option) throws IOException, InterruptedException {
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                option,
                "-cp",
                System.getProperty("java.class.path"),
                Program.class.getName())
            .redirectErrorStream(true)
            .redirectOutput(Files.createTempFile(folder, "output", "").toFile())
            .start();
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    return process.exitValue();
  }
}
