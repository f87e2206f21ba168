package io.github.eolistener.sink;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;

/** Makes the writers of a batch in its tasks. */
final class RecordWriterFactory implements DataWriterFactory {
  private static final long serialVersionUID = 1L;

  private final TaskProducers producers;
  private final TargetPartitions targets;
  private final boolean packed;

  RecordWriterFactory(TaskProducers producers, TargetPartitions targets, boolean packed) {
    this.producers = producers;
    this.targets = targets;
    this.packed = packed;
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
    TaskContext task = TaskContext.get();
    int[] attempts = {partitionId, task.attemptNumber(), task.stageAttemptNumber()};
    return packed
        ? new PackWriter(producers, targets, attempts)
        : new RowWriter(producers, targets, attempts);
  }
}
