import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;

/**
 * Holds each task at a fault point for as long as the file {@code hold-POINT} is there, and shows it
 * by a file {@code held-POINT-PID}; both in the folder that a system property names.
 */
public final class TaskHold implements Consumer<String> {
  private static final Path FOLDER = Path.of(System.getProperty("eo.test.hold"));

  @Override
  public void accept(String point) {
    Path hold = FOLDER.resolve("hold-" + point);
    if (!Files.exists(hold)) {
      return;
    }
    try {
      Files.writeString(
          FOLDER.resolve("held-" + point + "-" + ProcessHandle.current().pid()), "here");
      while (Files.exists(hold)) {
        Thread.sleep(5);
      }
    } catch (IOException | InterruptedException failed) {
      throw new IllegalStateException(failed);
    }
  }
}
