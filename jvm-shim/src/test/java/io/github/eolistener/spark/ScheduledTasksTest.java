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
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import scala.collection.immutable.List$;

/** Events are dropped by a listener that is taken from the bus, and told of the job by hand. */
class ScheduledTasksTest {
  private static final int JOB = 0;
  private static final CountDownLatch OTHER_STARTED = new CountDownLatch(1);
  private static final CountDownLatch MAY_END = new CountDownLatch(1);
  private static final CountDownLatch STARTED = new CountDownLatch(1);
  private static final CountDownLatch GOES_ON = new CountDownLatch(1);

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
          () -> spark.parallelize(List.of(0, 1), 2).foreach(ScheduledTasksTest::outlive));
      tasks.onJobEnd(new SparkListenerJobEnd(JOB, 0, JobSucceeded$.MODULE$));
      tasks.end();
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
  @DisplayName("A task whose end was dropped is not waited for")
  void endDropped() throws Exception {
    RunningTasks tasks = new RunningTasks();
    try (JavaSparkContext spark = context()) {
      tasks.begin(spark.sc());
      Thread job = new Thread(() -> spark.parallelize(List.of(0), 1).foreach(ScheduledTasksTest::waits));
      job.start(); // it inherits the local property
      STARTED.await(30, TimeUnit.SECONDS);
      spark.sc().listenerBus().waitUntilEmpty(30_000);
      spark.sc().removeSparkListener(tasks);
      GOES_ON.countDown();
      job.join(30_000);
      tasks.onJobEnd(new SparkListenerJobEnd(JOB, 0, JobSucceeded$.MODULE$));
      for (int tries = 0; tasks.any() && tries < 50; tries++) {
        Thread.sleep(100);
      }
      assertFalse(tasks.any());
      tasks.close();
    }
  }

  private static JavaSparkContext context() {
    return new JavaSparkContext(
        new SparkConf().setMaster("local[2]").setAppName("test").set("spark.ui.enabled", "false"));
  }

  private static void outlive(int number) throws InterruptedException {
    if (number == 0) {
      OTHER_STARTED.await(30, TimeUnit.SECONDS);
      throw new IllegalStateException("fails");
    }
    OTHER_STARTED.countDown();
    MAY_END.await(30, TimeUnit.SECONDS);
  }

  private static void waits(int number) throws InterruptedException {
    STARTED.countDown();
    GOES_ON.await(30, TimeUnit.SECONDS);
  }
}
