package io.github.eolistener.sink;

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
        UnsafeRow kept = (UnsafeRow) row;
        add(kept.getBaseObject(), place(kept, at), length(kept, at));
      } else {
        add(row.isNullAt(at) ? null : row.getBinary(at));
      }
    }

    private void add(byte[] part) {
      if (part == null) {
        add(NULL);
      } else {
        add(part, Platform.BYTE_ARRAY_OFFSET, part.length);
      }
    }

    private void add(Object base, long at, int length) {
      add(length);
      grow(length);
      Platform.copyMemory(base, at, bytes, (long) Platform.BYTE_ARRAY_OFFSET + size, length);
      size += length;
    }

    private void add(int number) {
      grow(Integer.BYTES);
      Platform.putInt(bytes, (long) Platform.BYTE_ARRAY_OFFSET + size, number);
      size += Integer.BYTES;
    }

    private void grow(int more) {
      int needed = Math.addExact(size, more);
      if (needed > bytes.length) {
        bytes = Arrays.copyOf(bytes, (int) Math.max(needed, Math.min(2L * bytes.length, MOST)));
      }
    }
  }

  /** Gives each record of a row's pack, the column {@code at}, to the receiver, in their order. */
  static void read(InternalRow row, int at, Receiver receiver) {
    Reader reader = Reader.of(row, at);
    while (reader.hasNext()) {
      int target = reader.number();
      if (target < 0) {
        receiver.take(target, null, null, null);
      } else {
        receiver.take(target, reader.part(), reader.part(), reader.headers());
      }
    }
  }

  /** Takes the parts of a column out of Spark's memory, each by one copy. */
  private static final class Reader {
    private final Object base;
    private final long end;
    private long at;

    private Reader(Object base, long begin, int size) {
      this.base = base;
      at = begin;
      end = begin + size;
    }

    static Reader of(InternalRow row, int column) {
      if (row instanceof UnsafeRow) {
        UnsafeRow kept = (UnsafeRow) row;
        return new Reader(kept.getBaseObject(), place(kept, column), length(kept, column));
      }
      byte[] pack = row.getBinary(column);
      return new Reader(pack, Platform.BYTE_ARRAY_OFFSET, pack.length);
    }

    boolean hasNext() {
      return at < end;
    }

    int number() {
      advance(Integer.BYTES);
      return Platform.getInt(base, at - Integer.BYTES);
    }

    byte[] part() {
      int length = number();
      if (length == NULL) {
        return null;
      }
      advance(length);
      byte[] part = new byte[length];
      Platform.copyMemory(base, at - length, part, Platform.BYTE_ARRAY_OFFSET, length);
      return part;
    }

    RecordHeaders headers() {
      int count = number();
      if (count == NULL) {
        return null;
      }
      RecordHeaders headers = new RecordHeaders();
      for (int i = 0; i < count; i++) {
        headers.add(new String(part(), StandardCharsets.UTF_8), part());
      }
      return headers;
    }

    private void advance(int bytes) {
      if (bytes < 0 || bytes > end - at) { // memory that is not the pack's would be read
        throw new IllegalStateException("a pack of records ends within one of them");
      }
      at += bytes;
    }
  }

  /** How many bytes a column has, which Spark keeps in one piece of its memory. */
  private static int length(UnsafeRow row, int at) {
    return (int) row.getLong(at); // in the lower half; in the upper one where they are
  }

  private static long place(UnsafeRow row, int at) {
    return row.getBaseOffset() + (row.getLong(at) >>> 32);
  }
}
