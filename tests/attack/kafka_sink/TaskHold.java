import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;

/**
 * Holds each task at a fault point for as long as the file {@code hold-POINT} is there, and shows it
 * by a file {@code held-POINT-PID}; both in the folder that a system property names.
 *
 * <p>An executor ends as soon as it knows that its driver is gone. While the file {@code hold-exit}
 * is there it does not, so that its tasks go on.
 */
public final class TaskHold implements Consumer<String> {
  private static final Path FOLDER = Path.of(System.getProperty("eo.test.hold"));

  static {
    Runtime.getRuntime().addShutdownHook(new Thread(() -> await(FOLDER.resolve("hold-exit"))));
  }

  @Override
  public void accept(String point) {
    Path hold = FOLDER.resolve("hold-" + point);
    if (!Files.exists(hold)) {
      return;
    }
    try {
      Files.writeString(
          FOLDER.resolve("held-" + point + "-" + ProcessHandle.current().pid()), "here");
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
    await(hold);
  }

  private static void await(Path hold) {
    try {
      while (Files.exists(hold)) {
        Thread.sleep(5);
      }
    } catch (InterruptedException failed) {
      throw new IllegalStateException(failed);
    }
  }
}
