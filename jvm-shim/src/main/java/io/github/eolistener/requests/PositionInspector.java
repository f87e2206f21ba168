package io.github.eolistener;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Tells how far a streaming query has come for good: what a restart would not read again. */
public final class PositionInspector {
  private static final int FORMAT = 1;

  private PositionInspector() {}

  /**
   * Describes what {@code query}, a StreamExecution or the StreamingQueryWrapper around one, has
   * made durable. It may be running or ended.
   *
   * <p>The answer is {@code {"v":1,"mode":name,"restored":true,"batch":n,
   * "sources":[{"index":i,"offsets":text}]}}. {@code restored} is false while the query has not yet
   * read its checkpoint; then there are no sources. {@code batch} is the last batch behind the
   * offsets, or an earlier one, never a later one; -1 when there is none. {@code index} counts as
   * the progress event's {@code sources} does; {@code offsets} is the JSON text that Spark writes
   * to its offset log. Kafka sources only.
   *
   * <p>Takes no lock that the query needs. In asynchronous and continuous mode it lists two folders
   * of the checkpoint and may read one file.
   *
   * @throws IllegalStateException when Spark's objects are not as expected
   */
  public static String inspect(Object query) {
    LiveQuery live = new LiveQuery(query);
    ExecutionMode mode = ExecutionMode.of(live.execution());
    Optional<Reached> reached = reached(live, mode);
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("v", FORMAT);
    answer.put("mode", mode.name());
    answer.put("restored", reached.isPresent());
    answer.put("batch", reached.map(r -> r.batch).orElse(-1L));
    answer.put("sources", reached.map(r -> sources(live, r)).orElse(List.of()));
    try {
      return new ObjectMapper().writeValueAsString(answer);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException("maps, lists and texts could not be written as JSON");
    }
  }

  private static List<Map<String, Object>> sources(LiveQuery live, Reached reached) {
    List<Object> streams = live.distinctStreams();
    List<Map<String, Object>> described = new ArrayList<>();
    for (int index = 0; index < streams.size(); index++) {
      LiveObject offset = reached.offsets.get(streams.get(index));
      if (offset != null && LiveQuery.isKafka(streams.get(index))) {
        Map<String, Object> source = new LinkedHashMap<>();
        source.put("index", index);
        source.put("offsets", offset.ask("json").get());
        described.add(source);
      }
    }
    return described;
  }

  /** Empty while the query restores its checkpoint. The order of the questions matters. */
  private static Optional<Reached> reached(LiveQuery live, ExecutionMode mode) {
    LiveObject execution = live.execution();
    if (live.streams().isEmpty()) {
      return Optional.empty(); // not planned; later its lazy values may be asked without a lock
    }
    boolean moved = !committed(execution).isEmpty();
    // From Spark 4.0 the offsets are set once the checkpoint is restored, not bit by bit.
    boolean setAtOnce = execution.find("currentBatchId").isEmpty();
    if (!(moved && setAtOnce) && isStarting(execution)) {
      return Optional.empty();
    }
    if (!moved) {
      boolean fresh = mode == ExecutionMode.CONTINUOUS || batch(execution) == 0;
      return fresh ? Optional.of(Reached.NOTHING) : Optional.empty();
    }
    if (mode == ExecutionMode.ASYNC_PROGRESS || mode == ExecutionMode.CONTINUOUS) {
      return Optional.of(onDisk(live));
    }
    return Optional.of(inMemory(execution));
  }

  /** While a query begins, its status begins with one of two words. */
  private static boolean isStarting(LiveObject execution) {
    String message = String.valueOf(execution.ask("status").ask("message").get());
    return message.startsWith("Initializing") || message.startsWith("Starting");
  }

  /**
   * Spark moves {@code committedOffsets} after it has written the commit log, and after that the
   * batch id. So the batch is asked first: then the offsets are those of the batch before it, or
   * later ones.
   */
  private static Reached inMemory(LiveObject execution) {
    Optional<LiveObject> context = execution.find("getLatestExecutionContext");
    if (context.isEmpty()) {
      return new Reached(batch(execution) - 1, pairs(execution.ask("committedOffsets")));
    }
    // From Spark 4.0 the batch id moves when the next batch begins: with a long trigger, late. But
    // offsets that are no longer those that the batch began with are its end. Both are asked of
    // one context: the next one's begin would make this batch's end look like its begin.
    long batch = (Long) context.get().ask("batchId").get();
    Object start = context.get().ask("startOffsets").get();
    LiveObject offsets = execution.ask("committedOffsets");
    return new Reached(start.equals(offsets.get()) ? batch - 1 : batch, pairs(offsets));
  }

  /** The batch that the query is about to run, runs, or (from Spark 4.0) has run last. */
  private static long batch(LiveObject execution) {
    LiveObject batch =
        execution
            .find("currentBatchId")
            .orElseGet(() -> execution.ask("getLatestExecutionContext").ask("batchId"));
    return (Long) batch.get();
  }

  /**
   * The newest batch whose offsets and whose commit are both in the file system: in asynchronous
   * mode {@code committedOffsets}, and the logs' own idea of their newest batch, run ahead of it.
   */
  private static Reached onDisk(LiveQuery live) {
    LiveObject log = live.execution().ask("offsetLog");
    long[] committed = batches(live.execution().ask("commitLog"));
    long[] planned = batches(log);
    for (int i = committed.length - 1; i >= 0; i--) {
      if (Arrays.binarySearch(planned, committed[i]) >= 0) {
        LiveObject entry = log.ask("get", committed[i]).ask("get");
        return new Reached(committed[i], logged(live, entry));
      }
    }
    return Reached.NOTHING;
  }

  private static long[] batches(LiveObject log) {
    return (long[]) log.ask("listBatchesOnDisk").get();
  }

  /** An entry of the offset log: by place among all leaves, or (Spark 4.2, opt-in) by name. */
  private static Map<Object, LiveObject> logged(LiveQuery live, LiveObject entry) {
    Map<Object, LiveObject> offsets = new LinkedHashMap<>();
    Optional<LiveObject> named = entry.find("offsetsMap");
    if (named.isPresent()) {
      Map<Object, LiveObject> byName = pairs(named.get());
      pairs(live.execution().ask("sourceIdMap"))
          .forEach((name, stream) -> put(offsets, stream.get(), byName.get(name)));
      return offsets;
    }
    List<Object> streams = live.streams();
    List<LiveObject> entries = entry.ask("offsets").elements();
    for (int i = 0; i < entries.size() && i < streams.size(); i++) {
      put(offsets, streams.get(i), entries.get(i));
    }
    return offsets;
  }

  private static void put(Map<Object, LiveObject> offsets, Object stream, LiveObject option) {
    if (option != null) {
      option.elements().forEach(offset -> offsets.put(stream, offset));
    }
  }

  private static Map<Object, LiveObject> committed(LiveObject execution) {
    return pairs(execution.ask("committedOffsets"));
  }

  private static Map<Object, LiveObject> pairs(LiveObject scalaMap) {
    Map<Object, LiveObject> pairs = new LinkedHashMap<>();
    for (LiveObject pair : scalaMap.elements()) {
      pairs.put(pair.ask("_1").get(), pair.ask("_2"));
    }
    return pairs;
  }

  /** The offsets at the end of a batch, by stream. */
  private static final class Reached {
    static final Reached NOTHING = new Reached(-1, Map.of());

    final long batch;
    final Map<Object, LiveObject> offsets;

    Reached(long batch, Map<Object, LiveObject> offsets) {
      this.batch = batch;
      this.offsets = offsets;
    }
  }
}
