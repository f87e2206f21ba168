package io.github.eolistener.sink;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.expr;
import static org.apache.spark.sql.functions.lit;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.protocol.CallArguments;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The columns of a user's DataFrame as those of a record, and of the rows that {@link RowWriter}
 * sends, which know their task, their place among those of their task, and their partition.
 */
final class RowColumns {
  static final String TASK = "eo_task";
  static final String PLACE = "eo_place";
  static final String TARGET = "eo_target";
  static final String KEY = "key";
  static final String VALUE = "value";
  static final String HEADERS = "headers";

  /** The numbers of the columns of {@link #records}. */
  static final int AT_RECORD_TOPIC = 0;

  static final int AT_RECORD_KEY = 1;
  static final int AT_RECORD_VALUE = 2;
  static final int AT_RECORD_HEADERS = 3;
  static final int AT_RECORD_PARTITION = 4;
  static final int AT_RECORD_MARK = 5;

  /** The numbers of the columns in a row. */
  static final int AT_TARGET = 2;

  static final int AT_KEY = 3;
  static final int AT_VALUE = 4;
  static final int AT_HEADERS = 5;

  /** What stands in place of a partition for a row whose headers cannot be sent, or is marked. */
  static final int NO_HEADER = -4;

  static final int MARKED = -5;

  /** What a row is counted under that Kafka's client does not take for its size. */
  static final int TOO_LARGE = -6;

  /** What stands in place of a partition where an earlier row has this identity, or is there. */
  static final int TWICE = -7;

  static final int PRESENT = -8;

  /** What stands there for a row whose identity has a text that is not UTF-8. */
  static final int NO_IDENTITY = -9;

  static final String HEADERS_TYPE = "array<struct<key:string,value:binary>>";
  // By their names: a cast would take them by their order.
  private static final String NAMED_HEADERS =
      "transform(headers, one -> named_struct('key', one.key, 'value', CAST(one.value AS BINARY)))";
  static final String REFUSED_HEADERS =
      "coalesce(exists(headers, one -> one.key IS NULL), false)";

  static final String MARK = "eo_marked";

  private RowColumns() {}

  /** What the columns of a row are called, in their order. */
  static final String[] NAMES = {TASK, PLACE, TARGET, KEY, VALUE, HEADERS};

  /** The columns of a record, of one type each, {@link #MARK}, and {@code more} of the frame's. */
  static Dataset<Row> records(Dataset<Row> frame, CallArguments arguments, Column... more) {
    Set<String> given = new TreeSet<>();
    arguments.object("columns").fieldNames().forEachRemaining(given::add);
    Column marked =
        arguments
            .find("mark")
            .map(name -> col("`" + name + "`").isNotNull())
            .orElseGet(() -> lit(false));
    List<Column> columns =
        new ArrayList<>(
            List.of(
                column(given, "topic", "string"),
                column(given, KEY, "binary"),
                column(given, VALUE, "binary"),
                (given.contains(HEADERS) ? expr(NAMED_HEADERS) : lit(null))
                    .cast(HEADERS_TYPE)
                    .as(HEADERS),
                column(given, "partition", "int"),
                marked.as(MARK)));
    columns.addAll(List.of(more));
    return frame.select(columns.toArray(new Column[0]));
  }

  /**
   * Rows that have all columns but {@link #TASK}, for so many tasks. One that has no partition goes
   * by {@code number} to any of them.
   */
  static Dataset<Row> tasked(Dataset<Row> rows, Column number, int tasks) {
    return rows.select(
        functions
            .udf(new TaskKeys(tasks), DataTypes.IntegerType)
            .apply(col(TARGET), number)
            .as(TASK),
        col(PLACE),
        col(TARGET),
        col(KEY),
        col(VALUE),
        col(HEADERS));
  }

  /** Whether rows of this schema are those that were made here. */
  static boolean fit(StructType schema) {
    return Arrays.equals(schema.fieldNames(), NAMES);
  }

  /** A class of its own: a lambda is not found by every class loader that executors have. */
  static final class Choice implements UDF4<String, byte[], Integer, Long, Integer> {
    private static final long serialVersionUID = 1L;

    private final TargetPartitions targets;

    Choice(TargetPartitions targets) {
      this.targets = targets;
    }

    @Override
    public Integer call(String topic, byte[] key, Integer partition, Long place) {
      return targets.choose(topic, key, partition, place);
    }
  }

  private static Column column(Set<String> given, String name, String type) {
    return (given.contains(name) ? col("`" + name + "`") : lit(null)).cast(type).as(name);
  }
}
