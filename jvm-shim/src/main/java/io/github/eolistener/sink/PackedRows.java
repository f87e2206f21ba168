package io.github.eolistener.sink;

import io.github.eolistener.kafka.RowPlace;
import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.UserPartitioner;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.spark.SourcePartitions;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Set;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Makes the rows of a user's DataFrame into packs of records, each for one task that {@link
 * PackWriter} sends in, and each with its first row's place in the old order. Called by Python.
 */
public final class PackedRows {
  private static final String PACK = "eo_pack";
  private static final StructType SCHEMA =
      new StructType()
          .add(RowColumns.TASK, DataTypes.IntegerType)
          .add(RowColumns.PLACE, DataTypes.LongType)
          .add(PACK, DataTypes.BinaryType);

  /** The numbers of the columns. */
  static final int AT_PLACE = 1;

  static final int AT_PACK = 2;

  private static final int PACK_BYTES = 64 << 10;
  private static final int SMALLEST_PACK = 4 << 10;
  private static final int BYTES = 8 << 20; // of all packs that a task fills
  private static final String SHUFFLE = "spark.shuffle.manager";
  private static final Set<String> KEEP_ORDER =
      Set.of("sort", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager");

  private PackedRows() {}

  /** The columns of a record, which {@link #packed} is to be given; {@code argument} as there. */
  public static Dataset<Row> records(Dataset<Row> frame, String argument) {
    return RowColumns.records(frame, CallArguments.of(argument));
  }

  /**
   * {@code {"topics","tasks","columns":{column:true},"mark"}}: the targets, the number of tasks,
   * which of a record's columns the frame has, and, if it has one, the column that marks rows which
   * are not to be sent; and those of {@link UserPartitioner}.
   *
   * @return rows of {@link #encoder}
   */
  public static JavaRDD<Row> packed(JavaRDD<InternalRow> records, String argument) {
    return records.mapPartitionsWithIndex(new Packing(CallArguments.of(argument)), true);
  }

  /** Of task, place and pack. A Dataset that is made by it copies a pack but once. */
  public static Encoder<Row> encoder() {
    return Encoders.row(SCHEMA);
  }

  /**
   * Whether the packs of these records, which {@link #packed} is given, must be sorted by their
   * places when they have gone through the shuffle. Not where all order is within a task, and the
   * shuffle keeps that: of Spark's own it is known.
   */
  public static boolean needSorting(JavaRDD<InternalRow> records) {
    String shuffle = records.context().conf().get(SHUFFLE, "sort");
    return !KEEP_ORDER.contains(shuffle) || !SourcePartitions.areApart(records);
  }

  /** Whether rows of this schema are those that were made here. */
  static boolean fit(StructType schema) {
    return Arrays.equals(schema.fieldNames(), SCHEMA.fieldNames());
  }

  /** A class of its own: a lambda is not found by every class loader that executors have. */
  static final class Packing
      implements Function2<Integer, Iterator<InternalRow>, Iterator<Row>> {
    private static final long serialVersionUID = 1L;

    private final TargetPartitions targets;
    private final UserPartitioner user;
    private final TaskKeys keys;

    Packing(CallArguments arguments) {
      targets = TargetPartitions.of(arguments);
      user = UserPartitioner.find(arguments).orElse(null);
      keys = new TaskKeys(arguments.number("tasks"));
    }

    @Override
    public Iterator<Row> call(Integer number, Iterator<InternalRow> rows) {
      TaskContext task = TaskContext.get();
      if (user != null && task != null) { // its thread and class loader outlive it
        task.addTaskCompletionListener((TaskCompletionListener) ended -> user.close());
      }
      return new Packs(this, RowPlace.first(number), rows);
    }

    /** Where a row goes, or why it goes nowhere. */
    int target(InternalRow row, ArrayData headers, long place) {
      if (row.getBoolean(RowColumns.AT_RECORD_MARK)) {
        return RowColumns.MARKED;
      }
      if (headers != null && lacksKey(headers)) {
        return RowColumns.NO_HEADER;
      }
      String topic =
          row.isNullAt(RowColumns.AT_RECORD_TOPIC)
              ? null
              : row.getUTF8String(RowColumns.AT_RECORD_TOPIC).toString();
      Integer named =
          row.isNullAt(RowColumns.AT_RECORD_PARTITION)
              ? null
              : Integer.valueOf(row.getInt(RowColumns.AT_RECORD_PARTITION));
      byte[] key = named == null ? binary(row, RowColumns.AT_RECORD_KEY) : null;
      if (named == null && user != null) {
        named = user.choose(targets, topic, key, binary(row, RowColumns.AT_RECORD_VALUE));
      }
      return targets.choose(topic, key, named, place);
    }

    private static byte[] binary(InternalRow row, int at) {
      return row.isNullAt(at) ? null : row.getBinary(at);
    }

    private static boolean lacksKey(ArrayData headers) {
      for (int i = 0; i < headers.numElements(); i++) {
        if (headers.isNullAt(i) || headers.getStruct(i, 2).isNullAt(0)) {
          return true;
        }
      }
      return false;
    }
  }

  /** The packs of one task's rows. */
  private static final class Packs implements Iterator<Row> {
    private final Packing how;
    private final Iterator<InternalRow> rows;
    private final RecordPack.Writer[] packs;
    private final long[] places;
    private final int enough;
    private final ArrayDeque<Integer> full = new ArrayDeque<>();
    private long place;

    Packs(Packing how, long first, Iterator<InternalRow> rows) {
      this.how = how;
      this.rows = rows;
      place = first;
      packs = new RecordPack.Writer[how.keys.tasks()];
      places = new long[packs.length];
      enough = Math.min(PACK_BYTES, Math.max(SMALLEST_PACK, BYTES / packs.length));
    }

    @Override
    public boolean hasNext() {
      while (full.isEmpty() && rows.hasNext()) {
        add(rows.next());
      }
      for (int task = 0; full.isEmpty() && task < packs.length; task++) {
        if (packs[task] != null && packs[task].size() > 0) {
          full.add(task);
        }
      }
      return !full.isEmpty();
    }

    @Override
    public Row next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      int task = full.remove();
      return RowFactory.create(how.keys.key(task), places[task], packs[task].take());
    }

    private void add(InternalRow row) {
      ArrayData headers =
          row.isNullAt(RowColumns.AT_RECORD_HEADERS)
              ? null
              : row.getArray(RowColumns.AT_RECORD_HEADERS);
      int target = how.target(row, headers, place);
      int task = TaskKeys.task(target, place, packs.length);
      if (packs[task] == null) {
        packs[task] = new RecordPack.Writer(enough);
      }
      RecordPack.Writer pack = packs[task];
      if (pack.size() == 0) {
        places[task] = place;
      }
      if (target < 0) {
        pack.refuse(target);
      } else {
        pack.add(target, row, headers);
      }
      if (pack.isFull()) {
        full.add(task);
      }
      place++;
    }
  }
}
