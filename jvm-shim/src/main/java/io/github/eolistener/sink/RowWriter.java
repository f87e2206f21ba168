package io.github.eolistener.sink;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** Sends the rows of one task that have the columns of {@link RowColumns}. */
final class RowWriter extends RecordWriter {
  RowWriter(TaskProducers producers, TargetPartitions targets, int[] attempts) {
    super(producers, targets, attempts);
  }

  @Override
  public void write(InternalRow row) {
    int target = row.getInt(RowColumns.AT_TARGET);
    if (target < 0) {
      send(target, null, null, null);
    } else if (sends()) {
      send(
          target,
          row.isNullAt(RowColumns.AT_KEY) ? null : row.getBinary(RowColumns.AT_KEY),
          row.isNullAt(RowColumns.AT_VALUE) ? null : row.getBinary(RowColumns.AT_VALUE),
          row.isNullAt(RowColumns.AT_HEADERS) ? null : headers(row.getArray(RowColumns.AT_HEADERS)));
    }
  }

  private static RecordHeaders headers(ArrayData given) {
    RecordHeaders headers = new RecordHeaders();
    for (int i = 0; i < given.numElements(); i++) {
      InternalRow one = given.getStruct(i, 2);
      String key = new String(one.getUTF8String(0).getBytes(), StandardCharsets.UTF_8);
      headers.add(key, one.isNullAt(1) ? null : one.getBinary(1));
    }
    return headers;
  }
}
