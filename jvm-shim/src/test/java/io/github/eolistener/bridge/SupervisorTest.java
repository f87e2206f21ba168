package io.github.eolistener.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.eolistener.events.ClaimedRuns;
import io.github.eolistener.events.EventQueue;
import io.github.eolistener.events.ProgressEvent;
import io.github.eolistener.events.QueryRun;
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

/** The bridge is kept running, whatever it does; a program of the tests takes its place. */
@Timeout(120)
class SupervisorTest {
  private static final long CHECK_MS = 2_000; // a process that a busy machine holds up is no failure
  private static final long SHORT_CHECK_MS = 500; // where a process that does not answer is meant

  private final EventQueue queue = new EventQueue(new ClaimedRuns());
  private Supervisor supervisor;

  @TempDir Path folder;

  private Path received() {
    return folder.resolve("received");
  }

  private void supervise(String behaviour) {
    supervise(behaviour, CHECK_MS);
  }

  private void supervise(String behaviour, long checkMillis) {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    List<String> arguments =
        List.of(
            "-XX:TieredStopAtLevel=1",
            "-cp",
            System.getProperty("java.class.path"),
            FakeBridge.class.getName(),
            behaviour,
            received().toString());
    supervise(java, arguments, checkMillis);
  }

  private void supervise(String program, List<String> arguments, long checkMillis) {
    PythonInterpreter interpreter =
        PythonInterpreter.choose(Map.of(PythonInterpreter.SETTING, program), Map.of());
    BridgeSettings settings =
        new BridgeSettings(
            interpreter, arguments, Map.of("spark.eo.mode", "simple"), checkMillis);
    supervisor = new Supervisor(settings, queue, new RequestHandler(queue));
    supervisor.start();
  }

  private QueryRun start() {
    QueryRun run = new QueryRun(UUID.randomUUID(), UUID.randomUUID(), "flights");
    queue.started(run);
    return run;
  }

  private void progress(QueryRun run, String text) {
    queue.progressed(run.runId, new ProgressEvent(0, List.of(text), () -> text));
  }

  private String all() {
    try {
      return Files.exists(received()) ? Files.readString(received()) : "";
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
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (!happened.getAsBoolean()) {
      assertTrue(System.nanoTime() < deadline, "it did not happen in time");
      Thread.sleep(20);
    }
  }

  private long stop(double seconds) throws InterruptedException {
    long began = System.nanoTime();
    supervisor.stop(began + (long) (seconds * 1e9));
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
  }

  @AfterEach
  void leavesNoProcess() throws InterruptedException {
    stop(1);
    for (long pid : pids()) {
      until(() -> !isAlive(pid));
    }
  }

  /** It starts with the first run; it is sent the settings, then all of the run, then the stop. */
  @Test
  void sendsAllOfARun() throws InterruptedException {
    supervise("good");
    Thread.sleep(300);
    assertEquals("", all());
    QueryRun run = start();
    progress(run, "batch 0");
    until(() -> all().contains("batch 0"));
    assertTrue(all().contains("{\"v\":1,\"shim\":\"unknown\",\"debug\":"));
    assertTrue(all().contains("\"spark.eo.mode\":\"simple\""));
    until(() -> all().contains("{\"answer\":1,\"failed\":\"the query is not known"));
    progress(run, "batch 1");
    assertTrue(stop(20) < 5_000);
    assertTrue(all().indexOf("batch 1") > 0);
    assertTrue(all().indexOf("{\"end\":") > all().indexOf("batch 1"));
    assertEquals(1, pids().size());
  }

  /** One that exits or writes invalid lines is replaced; the next one is sent the newest event. */
  @ParameterizedTest
  @ValueSource(strings = {"exits", "invalid"})
  void replacesOneThatFails(String behaviour) throws InterruptedException {
    supervise(behaviour);
    QueryRun run = start();
    progress(run, "batch 0");
    until(() -> pids().size() >= 2 && all().lastIndexOf("batch 0") > all().indexOf("fails now"));
    assertFalse(isAlive(pids().get(0)));
  }

  /** One that answers no ping in time is killed and replaced. */
  @Test
  void replacesOneThatIsSilent() throws InterruptedException {
    supervise("silent", SHORT_CHECK_MS);
    start();
    until(() -> pids().size() >= 2);
    assertFalse(isAlive(pids().get(0)));
  }

  /** One that was suspended is killed too, with its pipe full: nobody else has to wait. */
  @Test
  void replacesOneThatWasSuspended() throws Exception {
    supervise("good", SHORT_CHECK_MS);
    QueryRun run = start();
    until(() -> all().contains("started"));
    long suspended = pids().get(0);
    new ProcessBuilder("kill", "-STOP", Long.toString(suspended)).start().waitFor();
    String large = "x".repeat(100_000);
    long began = System.nanoTime();
    for (int batch = 0; batch < 50; batch++) {
      progress(run, large);
    }
    progress(run, "the newest");
    assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(1));
    until(() -> pids().size() >= 2 && all().contains("the newest"));
    assertFalse(isAlive(suspended));
  }

  /**
   * One that cannot run is not started again at once, and stopping does not wait. Where no other
   * process would work, nothing is kept.
   */
  @ParameterizedTest
  @CsvSource({
    "missing, it has no module eo_listener., Fix: install eo-listener there",
    "crash, it ended with exit code 9: it cannot load libssl.so.3., -m eo_listener.bridge` there",
    "settings, the bridge rejects its settings, queries keep running",
    "newer, Fix: give Spark the jar, queries keep running"
  })
  void backsOffWhereItCannotRun(String behaviour, String cause, String fix)
      throws InterruptedException {
    supervise(behaviour);
    start();
    until(() -> supervisor.lastError().contains(cause));
    Thread.sleep(1_200);
    assertEquals(1, pids().size());
    assertTrue(supervisor.lastError().contains(fix), supervisor.lastError());
    boolean rejected = behaviour.equals("settings") || behaviour.equals("newer");
    assertEquals(rejected, queue.isEmpty());
    start();
    assertEquals(rejected, queue.isEmpty());
    assertTrue(stop(20) < 3_000);
  }

  /** An interpreter that does not exist is reported, and nothing else happens. */
  @Test
  void reportsAMissingProgram() throws InterruptedException {
    supervise("/nowhere/python", List.of(), CHECK_MS);
    start();
    until(() -> supervisor.lastError().contains("/nowhere/python (from spark.eo.python). "));
    assertTrue(supervisor.lastError().contains("Cause: no such program"));
    assertTrue(supervisor.lastError().contains("--conf spark.eo.python=/path/to/python"));
    assertTrue(stop(20) < 3_000);
  }

  /** One that does not stop by the deadline is killed. */
  @Test
  void killsOneThatDoesNotStop() throws InterruptedException {
    supervise("endless");
    progress(start(), "batch 0");
    until(() -> all().contains("batch 0"));
    long millis = stop(1.5);
    assertTrue(millis >= 1_400 && millis < 4_000, millis + " ms");
    until(() -> !isAlive(pids().get(0)));
  }

  /** One that is suspended when it must stop is replaced in time for another to be sent all. */
  @Test
  void replacesOneThatIsSuspendedAtTheEnd() throws Exception {
    supervise("good", SHORT_CHECK_MS);
    QueryRun run = start();
    progress(run, "batch 0");
    until(() -> all().contains("batch 0"));
    new ProcessBuilder("kill", "-STOP", pids().get(0).toString()).start().waitFor();
    progress(run, "batch 1");
    assertTrue(stop(10) < 9_000);
    assertTrue(pids().size() >= 2, pids().toString());
    assertTrue(all().lastIndexOf("{\"end\":") > all().lastIndexOf("batch 1"));
  }

  /** At a restart it stops gracefully, and the next one is sent the remaining runs only. */
  @Test
  void restarts() throws InterruptedException {
    supervise("good");
    QueryRun kept = start();
    QueryRun claimed = start();
    progress(claimed, "of the claimed run");
    progress(kept, "of the other run");
    until(() -> all().contains("of the other run"));
    assertTrue(queue.release(claimed.runId));
    supervisor.restart();
    until(() -> pids().size() >= 2);
    until(() -> all().lastIndexOf("of the other run") > all().lastIndexOf("pid "));
    assertTrue(all().contains("{\"end\":"));
    assertTrue(all().lastIndexOf("of the claimed run") < all().lastIndexOf("pid "));
  }

  /** A run that is fully committed is not sent to the next bridge, and none is needed for it. */
  @Test
  void forgetsWhatIsCommitted() throws InterruptedException {
    supervise("good");
    QueryRun run = start();
    progress(run, "batch 0");
    queue.ended(run.runId);
    until(queue::isEmpty);
    ProcessHandle.of(pids().get(0)).ifPresent(ProcessHandle::destroyForcibly);
    assertTrue(stop(20) < 3_000);
    assertEquals(1, pids().size());
  }
}
