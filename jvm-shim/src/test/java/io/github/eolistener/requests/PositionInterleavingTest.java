package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BiFunction;
import org.apache.spark.sql.kafka010.StreamDouble;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * Inspects a query that advances between any two calls: every way in which the steps of Spark's own
 * code can fall between them is tried. The offsets of batch n are the text n.
 */
class PositionInterleavingTest {
  private static final Object STREAM = new StreamDouble();
  private static final int NONE = -1;
  private static final String GETTING = "Getting offsets from a source";

  /** Sets variables in the order in which Spark's thread does. */
  private static final class Timeline {
    final List<int[]> states = new ArrayList<>(); // context, batch, start, committed
    final List<String> messages = new ArrayList<>();
    private int[] now = {0, -1, NONE, NONE};
    private String message = "Initializing sources";

    Timeline() {
      keep();
    }

    private Timeline keep() {
      states.add(now.clone());
      messages.add(message);
      return this;
    }

    Timeline batch(int batch) {
      now[1] = batch;
      return keep();
    }

    Timeline start(int start) {
      now[2] = start;
      return keep();
    }

    Timeline committed(int committed) {
      now[3] = committed;
      return keep();
    }

    Timeline status(String text) {
      message = text;
      return keep();
    }

    /** Spark 4: a context for the next batch, created before it is visible. */
    Timeline context(int batch, int start) {
      now = new int[] {now[0] + 1, batch, start, now[3]};
      message = "Initializing StreamExecution";
      return keep();
    }
  }

  /** Answers from a timeline, which advances before each answer by the steps of the plan. */
  public abstract static class Execution {
    private final Timeline timeline;
    private final List<Integer> plan;
    private int calls;
    private int at;

    private Execution(Timeline timeline, List<Integer> plan) {
      this.timeline = timeline;
      this.plan = plan;
    }

    int[] advance() {
      if (calls == plan.size()) {
        plan.add(0);
      }
      at += plan.get(calls++);
      return timeline.states.get(at);
    }

    /** As `advance`, but from a context that may no longer be the latest. */
    int[] advance(int context) {
      advance();
      int last = at;
      while (timeline.states.get(last)[0] != context) {
        last--;
      }
      return timeline.states.get(last);
    }

    public QueryDouble.Seq sources() {
      advance();
      return new QueryDouble.Seq(List.of(STREAM));
    }

    public PositionDouble.Progress committedOffsets() {
      return progress(advance()[3]);
    }

    public PositionDouble.Status status() {
      advance();
      return new PositionDouble.Status(timeline.messages.get(at));
    }

    static PositionDouble.Progress progress(int batch) {
      PositionDouble.Progress progress = new PositionDouble.Progress();
      return batch == NONE ? progress : progress.with(STREAM, String.valueOf(batch));
    }
  }

  /** Here and in the next the class has Spark's name, which gives the mode. */
  static final class Spark3 {
    public static final class MicroBatchExecution extends Execution {
      MicroBatchExecution(Timeline timeline, List<Integer> plan) {
        super(timeline, plan);
      }

      public long currentBatchId() {
        return advance()[1];
      }
    }
  }

  static final class Spark4 {
    public static final class MicroBatchExecution extends Execution {
      MicroBatchExecution(Timeline timeline, List<Integer> plan) {
        super(timeline, plan);
      }

      public Context getLatestExecutionContext() {
        return new Context(this, advance()[0]);
      }
    }
  }

  /** As StreamExecutionContext. */
  public static final class Context {
    private final Execution execution;
    private final int number;

    Context(Execution execution, int number) {
      this.execution = execution;
      this.number = number;
    }

    public long batchId() {
      return execution.advance(number)[1];
    }

    public PositionDouble.Progress startOffsets() {
      return Execution.progress(execution.advance(number)[2]);
    }
  }

  /** Tries every plan; {@code durable} is the last batch done before the query was started. */
  private static Set<String> answers(
      Timeline timeline, BiFunction<Timeline, List<Integer>, Execution> version, int durable)
      throws Exception {
    Set<String> answers = new HashSet<>();
    List<Integer> plan = new ArrayList<>();
    do {
      Execution execution = version.apply(timeline, plan);
      String text = PositionInspector.inspect(execution);
      JsonNode answer = new ObjectMapper().readTree(text);
      if (!answer.get("restored").asBoolean()) {
        answers.add("unknown");
        continue;
      }
      int batch = answer.get("batch").asInt();
      JsonNode source = answer.at("/sources/0/offsets");
      int offsets = source.isMissingNode() ? NONE : source.asInt();
      assertTrue(batch <= offsets, plan + " " + text);
      assertTrue(batch >= durable, plan + " " + text);
      assertTrue(offsets <= timeline.states.get(execution.at)[3], plan + " " + text);
      answers.add(String.valueOf(batch));
    } while (next(plan, timeline.states.size() - 1));
    return answers;
  }

  /** Computes the next plan whose steps stay in the timeline; false when there is none. */
  private static boolean next(List<Integer> plan, int steps) {
    while (!plan.isEmpty()) {
      int last = plan.size() - 1;
      if (plan.stream().mapToInt(Integer::intValue).sum() < steps) {
        plan.set(last, plan.get(last) + 1);
        return true;
      }
      plan.remove(last);
    }
    return false;
  }

  private static Timeline spark3(int latest, boolean done) {
    Timeline timeline = new Timeline().batch(latest).committed(latest - 1);
    if (done) {
      timeline.batch(latest + 1).committed(latest);
    }
    int next = done ? latest + 1 : latest;
    timeline.status(GETTING);
    return timeline.committed(next).batch(next + 1).committed(next + 1);
  }

  private static Timeline spark4(int latest, boolean done) {
    Timeline timeline = new Timeline().context(-1, NONE).batch(latest).start(latest - 1);
    if (done) {
      timeline.batch(latest + 1).start(latest);
    }
    int next = done ? latest + 1 : latest;
    timeline.committed(next - 1).status(GETTING);
    return timeline.committed(next).context(next + 1, next).committed(next + 1);
  }

  @Test
  @DisplayName("Spark 3.5: never ahead of the offsets, never behind the checkpoint")
  void spark3() throws Exception {
    BiFunction<Timeline, List<Integer>, Execution> version = Spark3.MicroBatchExecution::new;
    assertEquals(Set.of("unknown", "6", "7"), answers(spark3(6, true), version, 6));
    assertEquals(Set.of("unknown", "5", "6"), answers(spark3(6, false), version, 5));
    assertEquals(Set.of("unknown", "0", "1"), answers(spark3(0, true), version, 0));
  }

  @Test
  @DisplayName("Spark 4: never ahead of the offsets, never behind the checkpoint")
  void spark4() throws Exception {
    BiFunction<Timeline, List<Integer>, Execution> version = Spark4.MicroBatchExecution::new;
    assertEquals(Set.of("unknown", "6", "7", "8"), answers(spark4(6, true), version, 6));
    assertEquals(Set.of("unknown", "5", "6", "7"), answers(spark4(6, false), version, 5));
    assertEquals(Set.of("unknown", "0", "1", "2"), answers(spark4(0, true), version, 0));
  }

  @Test
  @DisplayName("A new query is at batch -1 until its first batch is done")
  void fresh() throws Exception {
    Timeline third = new Timeline().batch(0).status(GETTING).committed(0).batch(1).committed(1);
    assertEquals(
        Set.of("unknown", "-1", "0"), answers(third, Spark3.MicroBatchExecution::new, NONE));
    Timeline fourth = new Timeline().context(-1, NONE).batch(0).status(GETTING).committed(0);
    fourth.context(1, 0).committed(1);
    assertEquals(
        Set.of("unknown", "-1", "0", "1"), answers(fourth, Spark4.MicroBatchExecution::new, NONE));
  }
}
