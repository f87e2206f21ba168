package io.github.eolistener.spark;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import scala.collection.immutable.List$;

/** Events are dropped by a listener that is taken from the bus, and told of the job by hand. */
class RunningTasksTest {
  private static final int JOB = 0;
  private static CountDownLatch started;
  private static CountDownLatch mayEnd;

  @BeforeEach
  void begin() {
    started = new CountDownLatch(1);
    mayEnd = new CountDownLatch(1);
  }

  @Test
  @DisplayName("A job has failed, and a task of it runs on until it ends by itself")
  void outlives() throws InterruptedException {
    RunningTasks tasks = new RunningTasks();
    try (JavaSparkContext spark = context()) {
      assertFalse(tasks.any());
      tasks.begin(spark.sc());
      assertTrue(tasks.any()); // and it is about to start
      assertThrows(
          Exception.class,
          () -> spark.parallelize(List.of(0, 1), 2).foreach(RunningTasksTest::work));
      tasks.end();
      Thread.sleep(300);
      assertTrue(tasks.any());
      spark.parallelize(List.of(0), 1).count(); // a job of another's changes nothing
      assertTrue(tasks.any());
      mayEnd.countDown();
      awaitEnd(tasks, 300);
      assertFalse(tasks.any());
      tasks.close();
    }
  }

  @Test
  @DisplayName("Nothing runs once the context was stopped, whose last events nobody gets")
  void stopped() {
    RunningTasks tasks = new RunningTasks();
    try (JavaSparkContext spark = context()) {
      tasks.begin(spark.sc());
      assertTrue(tasks.any());
    }
    assertFalse(tasks.any());
    tasks.close();
  }

  @Test
  @DisplayName("To listen no more waits for no event: a context that is stopped waits for both")
  void closes() throws InterruptedException {
    RunningTasks tasks = new RunningTasks();
    try (JavaSparkContext spark = context()) {
      tasks.begin(spark.sc());
      Thread closing = new Thread(tasks::close);
      synchronized (tasks) { // as an event has it
        closing.start();
        closing.join(10_000);
        assertFalse(closing.isAlive());
      }
      assertFalse(tasks.any());
    }
  }

  @Test
  @DisplayName("A task whose start was dropped is waited for, though its job is over")
  void startDropped() throws InterruptedException {
    RunningTasks tasks = new RunningTasks();
    try (JavaSparkContext spark = context()) {
      tasks.begin(spark.sc());
      spark.sc().removeSparkListener(tasks);
      Properties properties = spark.sc().getLocalProperties();
      tasks.onJobStart(new SparkListenerJobStart(JOB, 0, List$.MODULE$.empty(), properties));
      assertThrows(
          Exception.class,
          () -> spark.parallelize(List.of(0, 1), 2).foreach(RunningTasksTest::work));
      tasks.onJobEnd(new SparkListenerJobEnd(JOB, 0, JobSucceeded$.MODULE$));
      tasks.end();
      assertTrue(tasks.any());
      mayEnd.countDown();
      awaitEnd(tasks, 300);
      assertFalse(tasks.any());
      tasks.close();
    }
  }

  @Test
  @DisplayName("A task whose end was dropped is not waited for")
  void endDropped() throws Exception {
    RunningTasks tasks = new RunningTasks();
    try (JavaSparkContext spark = context()) {
      tasks.begin(spark.sc());
      Thread job =
          new Thread(() -> spark.parallelize(List.of(1), 1).foreach(RunningTasksTest::work));
      job.start(); // it inherits the local property
      started.await(30, TimeUnit.SECONDS);
      spark.sc().listenerBus().waitUntilEmpty(30_000);
      spark.sc().removeSparkListener(tasks);
      mayEnd.countDown();
      job.join(30_000);
      tasks.onJobEnd(new SparkListenerJobEnd(JOB, 0, JobSucceeded$.MODULE$));
      awaitEnd(tasks, 50);
      assertFalse(tasks.any());
      tasks.close();
    }
  }

  private static void awaitEnd(RunningTasks tasks, int tenths) throws InterruptedException {
    for (int tries = 0; tasks.any() && tries < tenths; tries++) {
      Thread.sleep(100);
    }
  }

  private static JavaSparkContext context() {
    return new JavaSparkContext(
        new SparkConf().setMaster("local[2]").setAppName("test").set("spark.ui.enabled", "false"));
  }

  private static void work(int number) throws InterruptedException {
    if (number == 0) {
      started.await(30, TimeUnit.SECONDS);
      throw new IllegalStateException("fails");
    }
    started.countDown();
    mayEnd.await(30, TimeUnit.SECONDS);
  }
}
