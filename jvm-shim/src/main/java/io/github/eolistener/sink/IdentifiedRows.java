package io.github.eolistener.sink;

import static org.apache.spark.sql.functions.coalesce;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.concat;
import static org.apache.spark.sql.functions.crc32;
import static org.apache.spark.sql.functions.explode;
import static org.apache.spark.sql.functions.expr;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.split;
import static org.apache.spark.sql.functions.struct;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.protocol.CallArguments;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;

/**
 * Makes the rows of a user's DataFrame, which are known again by their identity, into those of
 * {@link RowColumns}: the identity is their place in the order, each record has it in a header, and
 * a row without a key goes by it to a partition. Called by Python.
 */
public final class IdentifiedRows {
  private static final String IDENTITY = "eo_identity";
  private static final String THERE = "eo_there";
  // By their text, as Python compares them; over all tasks, since equal rows may part ways.
  private static final String COPY =
      "row_number() OVER (PARTITION BY eo_identity ORDER BY eo_identity)";

  private IdentifiedRows() {}

  /**
   * {@code {"topics","tasks","columns","mark"}} as in {@link PackedRows#packed}; {@code
   * "identity":[column]} are the columns of a row's identity, {@code "header"} the name of the
   * header, whose value is {@code "before"}, the identity and {@code "after"}. {@code "batch"} is
   * the one in {@link BatchWrites} that knows which rows are not to be sent, and whose tasks are
   * followed.
   */
  public static Dataset<Row> arranged(Dataset<Row> frame, String argument) {
    CallArguments arguments = CallArguments.of(argument);
    OrderedBatchWrite batch = BatchWrites.find(arguments.text("batch"));
    batch.follow(frame.sparkSession().sparkContext());
    List<String> there = batch.there();
    List<Column> values = new ArrayList<>();
    for (JsonNode name : arguments.array("identity")) {
      values.add(col("`" + name.asText().replace("`", "``") + "`"));
    }
    Dataset<Row> rows =
        RowColumns.records(
                frame,
                arguments,
                struct(values.toArray(new Column[0])).as(RowColumns.PLACE),
                identity(frame.schema(), arguments, values).as(IDENTITY))
            .withColumn("eo_copy", expr(COPY));
    rows =
        there.isEmpty()
            ? rows.withColumn(THERE, lit(null))
            : rows.join(
                known(frame.sparkSession(), there),
                col(IDENTITY).equalTo(col(THERE)),
                "left_outer");
    Column number = coalesce(crc32(col(IDENTITY).cast(DataTypes.BinaryType)), lit(0L));
    return RowColumns.tasked(
        rows.withColumn(RowColumns.TARGET, target(arguments, number))
            .withColumn(RowColumns.HEADERS, headers(arguments)),
        number,
        arguments.number("tasks"));
  }

  private static Column identity(StructType schema, CallArguments given, List<Column> values) {
    boolean[] areTexts = new boolean[values.size()];
    Column[] parts = new Column[values.size()];
    for (int i = 0; i < parts.length; i++) {
      DataType kind = schema.apply(given.array("identity").get(i).asText()).dataType();
      // A date as text: as an object it would be of another calendar.
      areTexts[i] = kind instanceof StringType || kind == DataTypes.DateType;
      parts[i] =
          areTexts[i]
              ? values.get(i).cast(DataTypes.StringType).cast(DataTypes.BinaryType)
              : values.get(i);
    }
    return functions.udf(new IdentityText(areTexts), DataTypes.StringType).apply(struct(parts));
  }

  /** A row for each line of these texts; each text goes to its task with that task. */
  private static Dataset<Row> known(SparkSession session, List<String> texts) {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    return session
        .createDataset(context.parallelize(texts, texts.size()).rdd(), Encoders.STRING())
        .select(explode(split(col("value"), "\n")).as(THERE));
  }

  private static Column target(CallArguments arguments, Column number) {
    UserDefinedFunction choice =
        functions.udf(
            new RowColumns.Choice(TargetPartitions.of(arguments)), DataTypes.IntegerType);
    Column chosen = choice.apply(col("topic"), col(RowColumns.KEY), col("partition"), number);
    return functions
        .when(col(RowColumns.MARK), lit(RowColumns.MARKED))
        .when(col(IDENTITY).isNull(), lit(RowColumns.NO_IDENTITY))
        .when(col("eo_copy").gt(1), lit(RowColumns.TWICE))
        .when(expr(RowColumns.REFUSED_HEADERS), lit(RowColumns.NO_HEADER))
        .when(chosen.lt(0).or(col(THERE).isNull()), chosen)
        .otherwise(lit(RowColumns.PRESENT));
  }

  /** Those of the row, and behind them its identity. */
  private static Column headers(CallArguments arguments) {
    Column value =
        concat(lit(arguments.text("before")), col(IDENTITY), lit(arguments.text("after")));
    Column own =
        functions.array(
            struct(
                lit(arguments.text("header")).as("key"),
                value.cast(DataTypes.BinaryType).as("value")));
    Column given =
        coalesce(col(RowColumns.HEADERS), functions.array().cast(RowColumns.HEADERS_TYPE));
    return concat(given, own.cast(RowColumns.HEADERS_TYPE)).cast(RowColumns.HEADERS_TYPE);
  }
}
