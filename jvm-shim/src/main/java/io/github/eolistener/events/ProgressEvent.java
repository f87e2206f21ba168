package io.github.eolistener.events;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** A completed batch: what identifies it, and its JSON, rendered when asked for. */
public final class ProgressEvent {
  final Supplier<String> json;

  private final long batchId;
  private final List<String> offsets;

  /** {@code offsets}: start and end of each source, as Spark's JSON; null for none. */
  public ProgressEvent(long batchId, List<String> offsets, Supplier<String> json) {
    this.batchId = batchId;
    this.offsets = offsets;
    this.json = json;
  }

  public static ProgressEvent of(StreamingQueryProgress progress) {
    List<String> offsets = new ArrayList<>();
    for (SourceProgress source : progress.sources()) {
      offsets.add(source.startOffset());
      offsets.add(source.endOffset());
    }
    return new ProgressEvent(progress.batchId(), offsets, progress::json);
  }

  /** Whether both are of one batch and the same offsets, so that either can be left out. */
  boolean isSameAs(ProgressEvent other) {
    return batchId == other.batchId && offsets.equals(other.offsets);
  }
}
