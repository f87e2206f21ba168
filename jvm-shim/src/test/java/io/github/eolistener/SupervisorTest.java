package io.github.eolistener;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The bridge is kept running, whatever it does; its part is played by a program of the tests. */
@Timeout(60)
class SupervisorTest {
  private final Mailbox mailbox = new Mailbox(new Claims());
  private Supervisor supervisor;

  @TempDir Path folder;

  private Path heard() {
    return folder.resolve("heard");
  }

  private void supervise(String part) {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    List<String> arguments =
        List.of(
            "-XX:TieredStopAtLevel=1",
            "-cp",
            System.getProperty("java.class.path"),
            FakeBridge.class.getName(),
            part,
            heard().toString());
    supervise(java, arguments);
  }

  private void supervise(String program, List<String> arguments) {
    Interpreter interpreter = Interpreter.choose(Map.of(Interpreter.SETTING, program), Map.of());
    Settings settings = new Settings(interpreter, arguments, Map.of("spark.eo.mode", "simple"), 250);
    supervisor = new Supervisor(settings, mailbox, new Clerk(mailbox));
    supervisor.start();
  }

  private Run start() {
    Run run = new Run(UUID.randomUUID(), UUID.randomUUID(), "flights");
    mailbox.started(run);
    return run;
  }

  private void progress(Run run, String text) {
    mailbox.progressed(run.runId, new Event(0, List.of(text), () -> text));
  }

  private String all() {
    try {
      return Files.exists(heard()) ? Files.readString(heard()) : "";
    } catch (IOException unexpected) {
      throw new IllegalStateException(unexpected);
    }
  }

  private List<Long> pids() {
    return all().lines()
        .filter(line -> line.startsWith("pid "))
        .map(line -> Long.valueOf(line.substring(4)))
        .collect(Collectors.toList());
  }

  private static boolean isAlive(long pid) {
    return ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false);
  }

  private static void until(BooleanSupplier happened) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
    while (!happened.getAsBoolean()) {
      assertTrue(System.nanoTime() < deadline, "it did not happen in time");
      Thread.sleep(20);
    }
  }

  private long end(double seconds) throws InterruptedException {
    long began = System.nanoTime();
    supervisor.end(began + (long) (seconds * 1e9));
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
  }

  @AfterEach
  void leavesNoProcess() throws InterruptedException {
    end(1);
    for (long pid : pids()) {
      until(() -> !isAlive(pid));
    }
  }

  /** It starts with the first run, is told the settings first, and all of the run at its end. */
  @Test
  void tellsTheWholeOfARun() throws InterruptedException {
    supervise("good");
    Thread.sleep(300);
    assertEquals("", all());
    Run run = start();
    progress(run, "batch 0");
    until(() -> all().contains("batch 0"));
    assertTrue(all().contains("{\"v\":1,\"shim\":\"unknown\",\"debug\":"));
    assertTrue(all().contains("\"spark.eo.mode\":\"simple\""));
    until(() -> all().contains("{\"answer\":1,\"failed\":\"the query is not known"));
    progress(run, "batch 1");
    assertTrue(end(20) < 5_000);
    assertTrue(all().indexOf("batch 1") > 0);
    assertTrue(all().indexOf("{\"end\":") > all().indexOf("batch 1"));
    assertEquals(1, pids().size());
  }

  /** One that dies or writes garbage is replaced, and its successor is told the newest. */
  @ParameterizedTest
  @ValueSource(strings = {"dies", "garbage"})
  void replacesOneThatFails(String part) throws InterruptedException {
    supervise(part);
    Run run = start();
    progress(run, "batch 0");
    until(() -> pids().size() == 2 && all().lastIndexOf("batch 0") > all().indexOf("misbehaves"));
    assertFalse(isAlive(pids().get(0)));
  }

  /** One that answers no ping for the time it was given is killed, and replaced. */
  @Test
  void replacesOneThatIsSilent() throws InterruptedException {
    supervise("silent");
    start();
    until(() -> pids().size() == 2);
    assertFalse(isAlive(pids().get(0)));
  }

  /** One that was stopped is killed too, with a full pipe before it: nobody else has to wait. */
  @Test
  void replacesOneThatWasStopped() throws Exception {
    supervise("good");
    Run run = start();
    until(() -> all().contains("started"));
    long stopped = pids().get(0);
    new ProcessBuilder("kill", "-STOP", Long.toString(stopped)).start().waitFor();
    String large = "x".repeat(100_000);
    long began = System.nanoTime();
    for (int batch = 0; batch < 50; batch++) {
      progress(run, large);
    }
    progress(run, "the newest");
    assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(1));
    until(() -> pids().size() == 2 && all().contains("the newest"));
    assertFalse(isAlive(stopped));
  }

  /**
   * Where it cannot run at all it is not tried over and over, and the end does not wait. Where no
   * other one could do better, nothing is kept.
   */
  @ParameterizedTest
  @CsvSource({
    "missing, it has no module eo_listener., To do: install eo-listener there",
    "crash, it ended with exit code 9: it cannot load libssl.so.3., -m eo_listener.bridge` says",
    "settings, it does not take these settings, queries run on",
    "newer, give Spark the jar, queries run on"
  })
  void restsWhereItCannotRun(String part, String why, String fix) throws InterruptedException {
    supervise(part);
    start();
    until(() -> supervisor.said().contains(why));
    Thread.sleep(1_200);
    assertEquals(1, pids().size());
    assertTrue(supervisor.said().contains(fix), supervisor.said());
    boolean hopeless = part.equals("settings") || part.equals("newer");
    assertEquals(hopeless, mailbox.isEmpty());
    start();
    assertEquals(hopeless, mailbox.isEmpty());
    assertTrue(end(20) < 3_000);
  }

  /** An interpreter that does not exist hurts nobody. */
  @Test
  void outlivesAMissingProgram() throws InterruptedException {
    supervise("/nowhere/python", List.of());
    start();
    until(() -> supervisor.said().contains("/nowhere/python (from spark.eo.python): there is no"));
    assertTrue(supervisor.said().contains("--conf spark.eo.python=/path/to/python"));
    assertTrue(end(20) < 3_000);
  }

  /** One that does not end in the time it has is killed. */
  @Test
  void endsOneThatDoesNotEnd() throws InterruptedException {
    supervise("endless");
    progress(start(), "batch 0");
    until(() -> all().contains("batch 0"));
    long millis = end(1.5);
    assertTrue(millis >= 1_400 && millis < 4_000, millis + " ms");
    until(() -> !isAlive(pids().get(0)));
  }

  /** One that is found stopped at the end is replaced in time for another to be told all. */
  @Test
  void replacesOneThatWasStoppedAtTheEnd() throws Exception {
    supervise("good");
    Run run = start();
    progress(run, "batch 0");
    until(() -> all().contains("batch 0"));
    new ProcessBuilder("kill", "-STOP", pids().get(0).toString()).start().waitFor();
    progress(run, "batch 1");
    assertTrue(end(10) < 9_000);
    assertEquals(2, pids().size());
    assertTrue(all().lastIndexOf("{\"end\":") > all().lastIndexOf("batch 1"));
  }

  /** At a renewal it ends in good order, and its successor knows only the runs that are left. */
  @Test
  void renews() throws InterruptedException {
    supervise("good");
    Run kept = start();
    Run left = start();
    progress(left, "of the one that leaves");
    progress(kept, "of the one that stays");
    until(() -> all().contains("of the one that stays"));
    assertTrue(mailbox.leave(left.runId));
    supervisor.renew();
    until(() -> pids().size() == 2);
    until(() -> all().lastIndexOf("of the one that stays") > all().lastIndexOf("pid "));
    assertTrue(all().contains("{\"end\":"));
    assertTrue(all().lastIndexOf("of the one that leaves") < all().lastIndexOf("pid "));
  }

  /** A run that is dealt with is not told to the next bridge, and at the end none is needed. */
  @Test
  void forgetsWhatIsSettled() throws InterruptedException {
    supervise("good");
    Run run = start();
    progress(run, "batch 0");
    mailbox.ended(run.runId);
    until(mailbox::isEmpty);
    ProcessHandle.of(pids().get(0)).ifPresent(ProcessHandle::destroyForcibly);
    assertTrue(end(20) < 3_000);
    assertEquals(1, pids().size());
  }
}
