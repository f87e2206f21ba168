package io.github.eolistener.spark;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class RunningTasksTest {
  private static final CountDownLatch STARTED = new CountDownLatch(1);
  private static final CountDownLatch MAY_END = new CountDownLatch(1);

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
      MAY_END.countDown();
      for (int tries = 0; tasks.any() && tries < 300; tries++) {
        Thread.sleep(100);
      }
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

  private static JavaSparkContext context() {
    return new JavaSparkContext(
        new SparkConf().setMaster("local[2]").setAppName("test").set("spark.ui.enabled", "false"));
  }

  private static void work(int number) throws InterruptedException {
    if (number == 0) {
      STARTED.await(30, TimeUnit.SECONDS);
      throw new IllegalStateException("fails");
    }
    STARTED.countDown();
    MAY_END.await(30, TimeUnit.SECONDS);
  }
}
