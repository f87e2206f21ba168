package io.github.eolistener.requests;

import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** The methods of Spark's StreamExecution that give the position of a query. */
public final class PositionDouble {
  private PositionDouble() {}

  /** What all versions have; the names of the classes that extend it are Spark's. */
  public abstract static class Execution {
    List<Object> streams = new ArrayList<>();
    Progress committed = new Progress();
    String message = "Waiting for data to arrive";
    Object trigger = new ProcessingTimeTrigger();
    Log offsetLog = new Log();
    Log commitLog = new Log();
    boolean lazyValuesAreComputed = true;

    public QueryDouble.Seq sources() {
      return new QueryDouble.Seq(streams);
    }

    public Progress committedOffsets() {
      return committed;
    }

    public Status status() {
      return new Status(message);
    }

    public Object trigger() {
      return trigger;
    }

    public Log offsetLog() {
      return computed(offsetLog);
    }

    public Log commitLog() {
      return computed(commitLog);
    }

    private Log computed(Log log) {
      if (!lazyValuesAreComputed) {
        throw new AssertionError("a lazy value was read before the query's own thread computed it");
      }
      return log;
    }
  }

  /** As in Spark 3.5, where the query has the batch id. */
  public static class MicroBatchExecution extends Execution {
    long batch;

    public long currentBatchId() {
      return batch;
    }
  }

  /** As in Spark 3.5. */
  public static final class AsyncProgressTrackingMicroBatchExecution extends MicroBatchExecution {}

  /** As in Spark 4.2, whose sources may have names. */
  public static final class NamedAsync {
    private NamedAsync() {}

    /** The class, with Spark's name. */
    public static final class AsyncProgressTrackingMicroBatchExecution extends Execution {
      final Progress names = new Progress();

      public Progress sourceIdMap() {
        return names;
      }
    }
  }

  /** A platform's own kind of query. */
  public static final class PlatformExecution extends MicroBatchExecution {}

  /** Not named as any of Spark's. */
  public static final class OtherExecution extends Execution {}

  /** As in every version: the batch id of the query is not the last one committed. */
  public static final class ContinuousExecution extends Execution {
    public long currentBatchId() {
      return 99;
    }
  }

  /** As in Spark 4, where a context for each batch has its id. */
  public static final class Spark4 {
    private Spark4() {}

    /** The class, with Spark's name. */
    public static final class MicroBatchExecution extends Execution {
      final Context context = new Context();

      public Context getLatestExecutionContext() {
        return context;
      }
    }
  }

  /** As StreamExecutionContext. */
  public static final class Context {
    long batch;
    Progress start = new Progress();

    public long batchId() {
      return batch;
    }

    public Progress startOffsets() {
      return start;
    }
  }

  /** As StreamingQueryStatus. */
  public static final class Status {
    private final String message;

    Status(String message) {
      this.message = message;
    }

    public String message() {
      return message;
    }
  }

  /** As ProcessingTimeTrigger. */
  public static final class ProcessingTimeTrigger {}

  /** As RealTimeTrigger. */
  public static final class RealTimeTrigger {}

  /** As StreamProgress: a Scala map. */
  public static final class Progress {
    private final Map<Object, Object> offsets = new LinkedHashMap<>();

    Progress with(Object stream, String json) {
      offsets.put(stream, new Offset(json));
      return this;
    }

    Progress withOption(Object name, String json) {
      offsets.put(name, option(json));
      return this;
    }

    Progress withStream(Object name, Object stream) {
      offsets.put(name, stream);
      return this;
    }

    public Object iterator() {
      List<Object> pairs = new ArrayList<>();
      offsets.forEach((key, value) -> pairs.add(new Pair(key, value)));
      return new QueryDouble.Seq(pairs).iterator();
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Progress && ((Progress) other).offsets.equals(offsets);
    }

    @Override
    public int hashCode() {
      return offsets.hashCode();
    }
  }

  /** As Scala's pair. */
  public static final class Pair extends AbstractMap.SimpleImmutableEntry<Object, Object> {
    private static final long serialVersionUID = 1L;

    Pair(Object key, Object value) {
      super(key, value);
    }

    public Object _1() {
      return getKey();
    }

    public Object _2() {
      return getValue();
    }
  }

  /** As the offset of a source. */
  public static final class Offset {
    private final String json;

    Offset(String json) {
      this.json = json;
    }

    public String json() {
      return json;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Offset && Objects.equals(((Offset) other).json, json);
    }

    @Override
    public int hashCode() {
      return json.hashCode();
    }
  }

  /** Scala's Option is iterated as a Seq is. */
  static QueryDouble.Seq option(String json) {
    return new QueryDouble.Seq(json == null ? List.of() : List.of(new Offset(json)));
  }

  /** As HDFSMetadataLog. */
  public static final class Log {
    private final Map<Long, Object> entries = new LinkedHashMap<>();

    Log with(long batch, Object entry) {
      entries.put(batch, entry);
      return this;
    }

    public long[] listBatchesOnDisk() {
      return entries.keySet().stream().mapToLong(Long::longValue).sorted().toArray();
    }

    public Some get(long batch) {
      return new Some(entries.get(batch));
    }
  }

  /** As Scala's Some. */
  public static final class Some {
    private final Object value;

    Some(Object value) {
      this.value = value;
    }

    public Object get() {
      return value;
    }
  }

  /** As OffsetSeq. */
  public static final class OffsetSeq {
    private final List<Object> offsets = new ArrayList<>();

    OffsetSeq(String... texts) {
      for (String text : texts) {
        offsets.add(option(text));
      }
    }

    public QueryDouble.Seq offsets() {
      return new QueryDouble.Seq(offsets);
    }
  }

  /** As OffsetMap, whose {@code offsets} throws. */
  public static final class OffsetMap {
    private final Progress named;

    OffsetMap(Progress named) {
      this.named = named;
    }

    public Progress offsetsMap() {
      return named;
    }

    public Object offsets() {
      throw new UnsupportedOperationException();
    }
  }
}
