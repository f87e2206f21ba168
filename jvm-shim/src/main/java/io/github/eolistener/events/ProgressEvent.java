package io.github.eolistener;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.streaming.SourceProgress;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** The end of a batch: what tells it from the one before it, and its text in the making. */
final class Event {
  final Supplier<String> json;

  private final long batch;
  private final List<String> offsets;

  /** {@code offsets} are starts and ends of its sources, each as Spark's text; null for none. */
  Event(long batch, List<String> offsets, Supplier<String> json) {
    this.batch = batch;
    this.offsets = offsets;
    this.json = json;
  }

  static Event of(StreamingQueryProgress progress) {
    List<String> offsets = new ArrayList<>();
    for (SourceProgress source : progress.sources()) {
      offsets.add(source.startOffset());
      offsets.add(source.endOffset());
    }
    return new Event(progress.batchId(), offsets, progress::json);
  }

  /** Whether both tell of one batch and the same offsets, so that either says it all. */
  boolean isSameAs(Event other) {
    return batch == other.batch && offsets.equals(other.offsets);
  }
}
