package io.github.eolistener.sink;

import io.github.eolistener.protocol.RefusedException;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** What Spark takes a batch for: a table that rows are written to. */
final class BatchTable implements SupportsWrite {
  private final StructType schema;

  BatchTable(StructType schema) {
    this.schema = schema;
  }

  @Override
  public String name() {
    return "eo_listener_batch";
  }

  @Override
  @SuppressWarnings("deprecation") // later versions of Spark prefer columns(), which is made of it
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    boolean packed = PackedRows.fit(info.schema());
    if (!packed && !RowColumns.fit(info.schema())) {
      throw new RefusedException("these rows were not made by PackedRows or IdentifiedRows");
    }
    OrderedBatchWrite rows = BatchWrites.find(info.options().get(BatchProvider.BATCH));
    rows.expect(packed, info.options().getBoolean(BatchProvider.SORT, true));
    return new WriteBuilder() {
      @Override
      public Write build() {
        return rows;
      }
    };
  }
}
