package io.github.eolistener.sink;

import io.github.eolistener.kafka.RowPlace;
import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;

/** Sends the rows of one task that were packed by {@link PackedRows}. */
final class PackWriter extends RecordWriter {
  private final Map<Long, Long> places = new HashMap<>(); // of the last pack of each earlier task

  PackWriter(TaskProducers producers, TargetPartitions targets, int[] attempts) {
    super(producers, targets, attempts);
  }

  /** Sends a pack; one that was made before another of its task must come before it. */
  @Override
  public void write(InternalRow row) {
    long place = row.getLong(PackedRows.AT_PLACE);
    Long before = places.put(RowPlace.task(place), place);
    if (before != null && before >= place) {
      throw new IllegalStateException(
          "Spark's shuffle has brought the rows of a task in another order than it gave them in:"
              + " use write_method=\"driver\"");
    }
    RecordPack.read(row, PackedRows.AT_PACK, this::send);
  }
}
