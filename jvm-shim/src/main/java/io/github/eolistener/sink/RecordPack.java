package io.github.eolistener.sink;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;

/**
 * Records one behind the other in one array, as they go through Spark's shuffle: there each row
 * costs what a hundred bytes cost.
 *
 * <p>A record is the number of its partition, or of the reason why it goes to none, which nothing
 * follows; then key and value, each behind its length; then the number of headers, and of each its
 * key and value. A length of -1, and a number of -1 headers, stand for null.
 */
final class RecordPack {
  private static final int NULL = -1;
  private static final int FIRST = 1024; // bytes
  private static final int MOST = Integer.MAX_VALUE - 8; // an array cannot be larger

  private RecordPack() {}

  /** How many bytes a column has, which Spark keeps in one piece of its memory. */
  static int length(UnsafeRow row, int at) {
    return (int) row.getLong(at); // in the lower half; in the upper one where they are
  }

  /** Copies these bytes to an array, once. */
  static void copy(UnsafeRow row, int at, byte[] to, int place) {
    long where = row.getLong(at);
    Platform.copyMemory(
        row.getBaseObject(),
        row.getBaseOffset() + (where >>> 32),
        to,
        (long) Platform.BYTE_ARRAY_OFFSET + place,
        (int) where);
  }

  /** What is given the records of a pack. */
  interface Receiver {
    void take(int target, byte[] key, byte[] value, RecordHeaders headers);
  }

  /** Makes one pack after another, of so many bytes and a record at most. */
  static final class Writer {
    private final int enough;
    private byte[] bytes = new byte[FIRST];
    private int size;

    Writer(int enough) {
      this.enough = enough;
    }

    int size() {
      return size;
    }

    boolean isFull() {
      return size >= enough;
    }

    /** How many bytes of memory it has. */
    int memory() {
      return bytes.length;
    }

    /** Adds one that goes nowhere. */
    void refuse(int reason) {
      add(reason);
    }

    /** Adds one of which this is the row; the headers may be null, their keys not. */
    void add(int target, InternalRow row, ArrayData headers) {
      add(target);
      add(row, RowColumns.AT_RECORD_KEY);
      add(row, RowColumns.AT_RECORD_VALUE);
      int count = headers == null ? NULL : headers.numElements();
      add(count);
      for (int i = 0; i < count; i++) {
        InternalRow one = headers.getStruct(i, 2);
        add(one.getUTF8String(0).getBytes());
        add(one.isNullAt(1) ? null : one.getBinary(1));
      }
    }

    /** Gives what was added, and begins anew. */
    byte[] take() {
      byte[] taken = Arrays.copyOf(bytes, size);
      size = 0;
      if (bytes.length > 2 * enough) { // of a large record: each task that sends has a writer
        bytes = new byte[FIRST];
      }
      return taken;
    }

    private void add(InternalRow row, int at) {
      if (row instanceof UnsafeRow && !row.isNullAt(at)) {
        int length = length((UnsafeRow) row, at);
        add(length);
        grow(length);
        copy((UnsafeRow) row, at, bytes, size);
        size += length;
      } else {
        add(row.isNullAt(at) ? null : row.getBinary(at));
      }
    }

    private void add(byte[] part) {
      add(part == null ? NULL : part.length);
      if (part != null) {
        grow(part.length);
        System.arraycopy(part, 0, bytes, size, part.length);
        size += part.length;
      }
    }

    private void add(int number) {
      grow(Integer.BYTES);
      bytes[size] = (byte) (number >>> 24);
      bytes[size + 1] = (byte) (number >>> 16);
      bytes[size + 2] = (byte) (number >>> 8);
      bytes[size + 3] = (byte) number;
      size += Integer.BYTES;
    }

    private void grow(int more) {
      int needed = Math.addExact(size, more);
      if (needed > bytes.length) {
        bytes = Arrays.copyOf(bytes, (int) Math.max(needed, Math.min(2L * bytes.length, MOST)));
      }
    }
  }

  /** Gives each record of a pack to the receiver, in their order. */
  static void read(byte[] pack, int size, Receiver receiver) {
    ByteBuffer left = ByteBuffer.wrap(pack, 0, size);
    while (left.hasRemaining()) {
      int target = left.getInt();
      if (target < 0) {
        receiver.take(target, null, null, null);
      } else {
        receiver.take(target, part(left), part(left), headers(left));
      }
    }
  }

  private static byte[] part(ByteBuffer left) {
    int length = left.getInt();
    if (length == NULL) {
      return null;
    }
    byte[] part = new byte[length];
    left.get(part);
    return part;
  }

  private static RecordHeaders headers(ByteBuffer left) {
    int count = left.getInt();
    if (count == NULL) {
      return null;
    }
    RecordHeaders headers = new RecordHeaders();
    for (int i = 0; i < count; i++) {
      headers.add(new String(part(left), StandardCharsets.UTF_8), part(left));
    }
    return headers;
  }
}
