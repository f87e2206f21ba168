package io.github.eolistener.sink;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** Sends the rows of one task that were packed by {@link PackedRows}. */
final class PackWriter extends RecordWriter {
  private byte[] pack = new byte[0];

  PackWriter(TaskProducers producers, TargetPartitions targets, int[] attempts) {
    super(producers, targets, attempts);
  }

  @Override
  public void write(InternalRow row) {
    if (row instanceof UnsafeRow) { // its memory is Spark's, and no array
      int size = RecordPack.length((UnsafeRow) row, PackedRows.AT_PACK);
      if (pack.length < size) {
        pack = new byte[size];
      }
      RecordPack.copy((UnsafeRow) row, PackedRows.AT_PACK, pack, 0);
      RecordPack.read(pack, size, this::send);
    } else {
      byte[] given = row.getBinary(PackedRows.AT_PACK);
      RecordPack.read(given, given.length, this::send);
    }
  }
}
