package io.github.eolistener.sink;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The format by which Python has Spark write the rows of a batch: append, with the option
 * {@value #BATCH}, which is the name of a batch in {@link BatchWrites}, and {@value #SORT}: whether
 * each task sorts its rows. Not for users.
 */
public final class BatchProvider implements TableProvider {
  static final String BATCH = "batch";
  static final String SORT = "sort";

  /** Rows come with their schema; there is nothing to be read. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new BatchTable(schema);
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }
}
