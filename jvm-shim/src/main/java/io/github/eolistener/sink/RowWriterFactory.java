package io.github.eolistener.sink;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;

/** Makes the writers of a batch in its tasks. */
final class RowWriterFactory implements DataWriterFactory {
  private static final long serialVersionUID = 1L;

  private final TaskProducers producers;
  private final TargetPartitions targets;

  RowWriterFactory(TaskProducers producers, TargetPartitions targets) {
    this.producers = producers;
    this.targets = targets;
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
    TaskContext task = TaskContext.get();
    int[] attempts = {partitionId, task.attemptNumber(), task.stageAttemptNumber()};
    return new RowWriter(producers, targets, attempts);
  }
}
