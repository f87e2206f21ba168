package io.github.eolistener.requests;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.eolistener.spark.ExecutionMode;
import io.github.eolistener.spark.SparkObject;
import io.github.eolistener.spark.SparkQuery;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Returns the durable position of a streaming query: what a restart would not read again. */
public final class PositionInspector {
  private static final int FORMAT = 1;

  private PositionInspector() {}

  /**
   * Describes what {@code query}, a StreamExecution or the StreamingQueryWrapper around one, has
   * made durable, running or ended.
   *
   * <p>The answer is {@code {"v":1,"mode":name,"restored":true,"batch":n,
   * "sources":[{"index":i,"offsets":text}]}}. {@code restored} is false while the query has not yet
   * read its checkpoint; then there are no sources. {@code batch} is the last batch whose end the
   * offsets are, or an earlier one, never a later one; -1 when there is none. {@code index} counts
   * as the progress event's {@code sources} does; {@code offsets} is the JSON text that Spark
   * writes to its offset log. Kafka sources only.
   *
   * <p>Takes no lock that the query needs. In asynchronous and continuous mode it lists two folders
   * of the checkpoint and may read one file.
   *
   * @throws IllegalStateException when Spark's objects are not as expected
   */
  public static String inspect(Object query) {
    SparkQuery spark = new SparkQuery(query);
    ExecutionMode mode = ExecutionMode.of(spark.execution());
    Optional<Reached> reached = reached(spark, mode);
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("v", FORMAT);
    answer.put("mode", mode.name());
    answer.put("restored", reached.isPresent());
    answer.put("batch", reached.map(r -> r.batch).orElse(-1L));
    answer.put("sources", reached.map(r -> sources(spark, r)).orElse(List.of()));
    try {
      return new ObjectMapper().writeValueAsString(answer);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException("maps, lists and strings could not be written as JSON");
    }
  }

  private static List<Map<String, Object>> sources(SparkQuery spark, Reached reached) {
    List<Object> streams = spark.distinctStreams();
    List<Map<String, Object>> described = new ArrayList<>();
    for (int index = 0; index < streams.size(); index++) {
      SparkObject offset = reached.offsets.get(streams.get(index));
      if (offset != null && SparkQuery.isKafka(streams.get(index))) {
        Map<String, Object> source = new LinkedHashMap<>();
        source.put("index", index);
        source.put("offsets", offset.call("json").get());
        described.add(source);
      }
    }
    return described;
  }

  /** Empty while the query restores its checkpoint. The order of the calls matters. */
  private static Optional<Reached> reached(SparkQuery spark, ExecutionMode mode) {
    SparkObject execution = spark.execution();
    if (spark.streams().isEmpty()) {
      return Optional.empty(); // not planned; afterwards its lazy values can be read without a lock
    }
    boolean moved = !committed(execution).isEmpty();
    // From Spark 4.0 the offsets are set once the checkpoint is restored, not bit by bit.
    boolean setAtOnce = execution.tryCall("currentBatchId").isEmpty();
    if (!(moved && setAtOnce) && isStarting(execution)) {
      return Optional.empty();
    }
    if (!moved) {
      boolean fresh = mode == ExecutionMode.CONTINUOUS || batch(execution) == 0;
      return fresh ? Optional.of(Reached.NOTHING) : Optional.empty();
    }
    if (mode == ExecutionMode.ASYNC_PROGRESS || mode == ExecutionMode.CONTINUOUS) {
      return Optional.of(onDisk(spark));
    }
    return Optional.of(inMemory(execution));
  }

  /** While a query starts, its status message starts with one of two words. */
  private static boolean isStarting(SparkObject execution) {
    String message = String.valueOf(execution.call("status").call("message").get());
    return message.startsWith("Initializing") || message.startsWith("Starting");
  }

  /**
   * Spark moves {@code committedOffsets} after it has written the commit log, and after that the
   * batch id. So the batch is read first: then the offsets are those of the batch before it, or
   * later ones.
   */
  private static Reached inMemory(SparkObject execution) {
    Optional<SparkObject> context = execution.tryCall("getLatestExecutionContext");
    if (context.isEmpty()) {
      return new Reached(batch(execution) - 1, pairs(execution.call("committedOffsets")));
    }
    // From Spark 4.0 the batch id moves when the next batch begins: with a long trigger, late. But
    // offsets that differ from those that the batch began with are its end. Both are read from one
    // context: the next one's start would make this batch's end look like its start.
    long batch = (Long) context.get().call("batchId").get();
    Object start = context.get().call("startOffsets").get();
    SparkObject offsets = execution.call("committedOffsets");
    return new Reached(start.equals(offsets.get()) ? batch - 1 : batch, pairs(offsets));
  }

  /** The batch that the query is about to run, runs, or (from Spark 4.0) has run last. */
  private static long batch(SparkObject execution) {
    SparkObject batch =
        execution
            .tryCall("currentBatchId")
            .orElseGet(() -> execution.call("getLatestExecutionContext").call("batchId"));
    return (Long) batch.get();
  }

  /**
   * The newest batch whose offsets and whose commit are both in the file system: in asynchronous
   * mode {@code committedOffsets}, and the newest batch that the logs themselves report, run ahead
   * of it.
   */
  private static Reached onDisk(SparkQuery spark) {
    SparkObject log = spark.execution().call("offsetLog");
    long[] committed = batches(spark.execution().call("commitLog"));
    long[] planned = batches(log);
    for (int i = committed.length - 1; i >= 0; i--) {
      if (Arrays.binarySearch(planned, committed[i]) >= 0) {
        SparkObject entry = log.call("get", committed[i]).call("get");
        return new Reached(committed[i], logged(spark, entry));
      }
    }
    return Reached.NOTHING;
  }

  private static long[] batches(SparkObject log) {
    return (long[]) log.call("listBatchesOnDisk").get();
  }

  /** An entry of the offset log: by place among all leaves, or (Spark 4.2, opt-in) by name. */
  private static Map<Object, SparkObject> logged(SparkQuery spark, SparkObject entry) {
    Map<Object, SparkObject> offsets = new LinkedHashMap<>();
    Optional<SparkObject> named = entry.tryCall("offsetsMap");
    if (named.isPresent()) {
      Map<Object, SparkObject> byName = pairs(named.get());
      pairs(spark.execution().call("sourceIdMap"))
          .forEach((name, stream) -> put(offsets, stream.get(), byName.get(name)));
      return offsets;
    }
    List<Object> streams = spark.streams();
    List<SparkObject> entries = entry.call("offsets").elements();
    for (int i = 0; i < entries.size() && i < streams.size(); i++) {
      put(offsets, streams.get(i), entries.get(i));
    }
    return offsets;
  }

  private static void put(Map<Object, SparkObject> offsets, Object stream, SparkObject option) {
    if (option != null) {
      option.elements().forEach(offset -> offsets.put(stream, offset));
    }
  }

  private static Map<Object, SparkObject> committed(SparkObject execution) {
    return pairs(execution.call("committedOffsets"));
  }

  private static Map<Object, SparkObject> pairs(SparkObject scalaMap) {
    Map<Object, SparkObject> pairs = new LinkedHashMap<>();
    for (SparkObject pair : scalaMap.elements()) {
      pairs.put(pair.call("_1").get(), pair.call("_2"));
    }
    return pairs;
  }

  /** The offsets at the end of a batch, by stream. */
  private static final class Reached {
    static final Reached NOTHING = new Reached(-1, Map.of());

    final long batch;
    final Map<Object, SparkObject> offsets;

    Reached(long batch, Map<Object, SparkObject> offsets) {
      this.batch = batch;
      this.offsets = offsets;
    }
  }
}
