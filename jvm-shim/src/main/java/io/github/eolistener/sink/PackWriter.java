package io.github.eolistener.sink;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/** Sends the rows of one task that were packed by {@link PackedRows}. */
final class PackWriter extends RecordWriter {
  private byte[] pack = new byte[0];

  PackWriter(TaskProducers producers, TargetPartitions targets, int[] attempts) {
    super(producers, targets, attempts);
  }

  @Override
  public void write(InternalRow row) {
    if (row instanceof UnsafeRow) { // its memory is Spark's, and no array
      UnsafeRow whole = (UnsafeRow) row;
      long place = whole.getLong(PackedRows.AT_PACK);
      int size = (int) place;
      if (pack.length < size) {
        pack = new byte[size];
      }
      Platform.copyMemory(
          whole.getBaseObject(),
          whole.getBaseOffset() + (place >>> 32),
          pack,
          Platform.BYTE_ARRAY_OFFSET,
          size);
      RecordPack.read(pack, size, this::send);
    } else {
      byte[] given = row.getBinary(PackedRows.AT_PACK);
      RecordPack.read(given, given.length, this::send);
    }
  }
}
