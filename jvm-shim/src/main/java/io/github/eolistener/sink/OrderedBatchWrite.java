package io.github.eolistener.sink;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.RefusedException;
import io.github.eolistener.spark.RunningTasks;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * The rows of one batch on their way to Kafka: those of a partition in one task, in the order that
 * an earlier task has given them, or in the order of all their places. It commits nothing: Python
 * does, when it has read what the tasks report.
 */
final class OrderedBatchWrite implements RequiresDistributionAndOrdering, BatchWrite {
  private final TaskProducers producers;
  private final TargetPartitions targets;
  private final int tasks;
  private final AtomicBoolean begun = new AtomicBoolean();
  private final RunningTasks running = new RunningTasks();
  private final List<String> there = new CopyOnWriteArrayList<>();
  private volatile SparkContext context;
  private volatile boolean packed;
  private volatile boolean sort = true;
  private volatile int planned;
  private volatile List<Map<String, Object>> reports = List.of();

  OrderedBatchWrite(CallArguments arguments) {
    producers = TaskProducers.of(arguments);
    targets = TargetPartitions.of(arguments);
    tasks = arguments.number("tasks");
  }

  @Override
  public String description() {
    return toString();
  }

  @Override
  public String toString() {
    return "eo_listener: " + producers;
  }

  @Override
  public BatchWrite toBatch() {
    return this;
  }

  @Override
  public Distribution requiredDistribution() {
    return Distributions.clustered(new Expression[] {Expressions.column(RowColumns.TASK)});
  }

  /** By a hash of the column, never otherwise: no partition may be in two tasks. */
  @Override
  public boolean distributionStrictlyRequired() {
    return true;
  }

  /** Where a number is required, adaptive execution neither joins nor splits tasks. */
  @Override
  public int requiredNumPartitions() {
    return tasks;
  }

  /**
   * A task of a shuffle gets the rows of each earlier task in order, but the tasks in any. To sort
   * them it keeps all of them first.
   */
  @Override
  public SortOrder[] requiredOrdering() {
    return sort
        ? new SortOrder[] {
          Expressions.sort(Expressions.column(RowColumns.PLACE), SortDirection.ASCENDING)
        }
        : new SortOrder[0];
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    if (!begun.compareAndSet(false, true)) {
      throw new RefusedException("this batch has been written already: " + this);
    }
    planned = info.numPartitions();
    if (context != null) {
      running.begin(context);
    }
    return new RecordWriterFactory(producers, targets, packed);
  }

  /**
   * It would be a question of each task to the driver. Which attempt has sent the rows is in its
   * report, and only the first one sends any.
   */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    List<Map<String, Object>> all = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      all.add(((TaskReport) message).json());
    }
    reports = all;
    running.end();
  }

  /** Python ends the transaction, or leaves that to the next one. */
  @Override
  public void abort(WriterCommitMessage[] messages) {
    running.end();
  }

  /**
   * Follows the tasks, which run there: nothing keeps out what they send when their try is over.
   * Those of a transaction need it not, since whoever takes over its id has fenced them.
   */
  void follow(SparkContext runs) {
    context = runs;
  }

  /** Whether the rows are packs, those of {@link PackedRows}; and whether each task sorts them. */
  void expect(boolean packs, boolean areToBeSorted) {
    packed = packs;
    sort = areToBeSorted;
  }

  /** Identities of rows that are not to be sent, one a line; called for some at a time. */
  void leaveOut(String identities) {
    there.add(identities);
  }

  /** What {@link #leaveOut} was called with. */
  List<String> there() {
    return List.copyOf(there);
  }

  Map<String, Object> reports() {
    return Map.of("tasks", planned, "reports", reports, "running", running.any());
  }

  void close() {
    running.close();
  }
}
