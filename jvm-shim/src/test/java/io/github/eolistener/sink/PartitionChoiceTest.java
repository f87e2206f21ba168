package io.github.eolistener.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.UserPartitioner;
import io.github.eolistener.protocol.CallArguments;
import java.util.Map;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import scala.Option;

class PartitionChoiceTest {
  private static int opened;
  private static int closed;

  /** Counts itself. */
  public static final class Counted implements Partitioner {
    @Override
    public void configure(Map<String, ?> properties) {
      opened++;
    }

    @Override
    public int partition(
        String topic, Object key, byte[] keyBytes, Object value, byte[] bytes, Cluster cluster) {
      return 1;
    }

    @Override
    public void close() {
      closed++;
    }
  }

  @AfterEach
  void leaveNoTask() {
    TaskContext$.MODULE$.unset();
  }

  @Test
  @DisplayName("Each task opens one partitioner of the user's, and closes it with its end")
  void closedWithItsTask() {
    CallArguments arguments =
        CallArguments.of(
            "{\"topics\":[[\"a\",3]],\"partitionerProperties\":{},\"partitioner\":\""
                + Counted.class.getName()
                + "\"}");
    for (int task = 1; task <= 3; task++) {
      TaskContextImpl context = TaskContext$.MODULE$.empty();
      TaskContext$.MODULE$.setTaskContext(context);
      RowColumns.Choice choice =
          new RowColumns.Choice(
              TargetPartitions.of(arguments), UserPartitioner.find(arguments).orElseThrow());
      assertEquals(1, choice.call(null, null, new byte[] {0}, null, 0L));
      assertEquals(1, choice.call(null, null, new byte[] {0}, null, 1L));
      assertEquals(2, choice.call(null, null, new byte[] {0}, 2, 2L));
      assertEquals(task, opened);
      assertEquals(task - 1, closed);
      context.markTaskCompleted(Option.empty());
      assertEquals(task, closed);
    }
  }
}
