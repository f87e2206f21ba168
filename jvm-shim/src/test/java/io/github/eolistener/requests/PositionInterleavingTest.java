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
 * Asks a query that goes on between any two questions: every way in which the steps of Spark's own
 * code can fall between them is tried. The offsets of batch n are the text n.
 */
class PositionInterleavingTest {
  private static final Object STREAM = new StreamDouble();
  private static final int NONE = -1;
  private static final String GETTING = "Getting offsets from a source";

  /** Sets variables in the order in which Spark's thread does. */
  private static final class Story {
    final List<int[]> states = new ArrayList<>(); // context, batch, start, committed
    final List<String> messages = new ArrayList<>();
    private int[] now = {0, -1, NONE, NONE};
    private String message = "Initializing sources";

    Story() {
      keep();
    }

    private Story keep() {
      states.add(now.clone());
      messages.add(message);
      return this;
    }

    Story batch(int batch) {
      now[1] = batch;
      return keep();
    }

    Story start(int start) {
      now[2] = start;
      return keep();
    }

    Story committed(int committed) {
      now[3] = committed;
      return keep();
    }

    Story says(String text) {
      message = text;
      return keep();
    }

    /** Spark 4: a context for the next batch, made before it can be seen. */
    Story context(int batch, int start) {
      now = new int[] {now[0] + 1, batch, start, now[3]};
      message = "Initializing StreamExecution";
      return keep();
    }
  }

  /** Answers from a story, which goes on before each answer as far as the plan says. */
  public abstract static class Teller {
    private final Story story;
    private final List<Integer> plan;
    private int asked;
    private int at;

    private Teller(Story story, List<Integer> plan) {
      this.story = story;
      this.plan = plan;
    }

    int[] goOn() {
      if (asked == plan.size()) {
        plan.add(0);
      }
      at += plan.get(asked++);
      return story.states.get(at);
    }

    /** As `goOn`, but as seen in a context that may no longer be the latest. */
    int[] goOn(int context) {
      goOn();
      int last = at;
      while (story.states.get(last)[0] != context) {
        last--;
      }
      return story.states.get(last);
    }

    public QueryDouble.Seq sources() {
      goOn();
      return new QueryDouble.Seq(List.of(STREAM));
    }

    public PositionDouble.Progress committedOffsets() {
      return progress(goOn()[3]);
    }

    public PositionDouble.Status status() {
      goOn();
      return new PositionDouble.Status(story.messages.get(at));
    }

    static PositionDouble.Progress progress(int batch) {
      PositionDouble.Progress progress = new PositionDouble.Progress();
      return batch == NONE ? progress : progress.with(STREAM, String.valueOf(batch));
    }
  }

  /** Here and in the next the name of the class is Spark's, for the mode. */
  static final class Spark3 {
    public static final class MicroBatchExecution extends Teller {
      MicroBatchExecution(Story story, List<Integer> plan) {
        super(story, plan);
      }

      public long currentBatchId() {
        return goOn()[1];
      }
    }
  }

  static final class Spark4 {
    public static final class MicroBatchExecution extends Teller {
      MicroBatchExecution(Story story, List<Integer> plan) {
        super(story, plan);
      }

      public Context getLatestExecutionContext() {
        return new Context(this, goOn()[0]);
      }
    }
  }

  /** As StreamExecutionContext. */
  public static final class Context {
    private final Teller teller;
    private final int number;

    Context(Teller teller, int number) {
      this.teller = teller;
      this.number = number;
    }

    public long batchId() {
      return teller.goOn(number)[1];
    }

    public PositionDouble.Progress startOffsets() {
      return Teller.progress(teller.goOn(number)[2]);
    }
  }

  /** Tries every plan; {@code durable} is the last batch done before the query was started. */
  private static Set<String> answers(
      Story story, BiFunction<Story, List<Integer>, Teller> version, int durable) throws Exception {
    Set<String> answers = new HashSet<>();
    List<Integer> plan = new ArrayList<>();
    do {
      Teller teller = version.apply(story, plan);
      String text = PositionInspector.inspect(teller);
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
      assertTrue(offsets <= story.states.get(teller.at)[3], plan + " " + text);
      answers.add(String.valueOf(batch));
    } while (next(plan, story.states.size() - 1));
    return answers;
  }

  /** Makes the next plan whose steps do not leave the story; false when there is none. */
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

  private static Story spark3(int latest, boolean done) {
    Story story = new Story().batch(latest).committed(latest - 1);
    if (done) {
      story.batch(latest + 1).committed(latest);
    }
    int next = done ? latest + 1 : latest;
    story.says(GETTING);
    return story.committed(next).batch(next + 1).committed(next + 1);
  }

  private static Story spark4(int latest, boolean done) {
    Story story = new Story().context(-1, NONE).batch(latest).start(latest - 1);
    if (done) {
      story.batch(latest + 1).start(latest);
    }
    int next = done ? latest + 1 : latest;
    story.committed(next - 1).says(GETTING);
    return story.committed(next).context(next + 1, next).committed(next + 1);
  }

  @Test
  @DisplayName("Spark 3.5: never ahead of the offsets, never behind the checkpoint")
  void spark3() throws Exception {
    BiFunction<Story, List<Integer>, Teller> version = Spark3.MicroBatchExecution::new;
    assertEquals(Set.of("unknown", "6", "7"), answers(spark3(6, true), version, 6));
    assertEquals(Set.of("unknown", "5", "6"), answers(spark3(6, false), version, 5));
    assertEquals(Set.of("unknown", "0", "1"), answers(spark3(0, true), version, 0));
  }

  @Test
  @DisplayName("Spark 4: never ahead of the offsets, never behind the checkpoint")
  void spark4() throws Exception {
    BiFunction<Story, List<Integer>, Teller> version = Spark4.MicroBatchExecution::new;
    assertEquals(Set.of("unknown", "6", "7", "8"), answers(spark4(6, true), version, 6));
    assertEquals(Set.of("unknown", "5", "6", "7"), answers(spark4(6, false), version, 5));
    assertEquals(Set.of("unknown", "0", "1", "2"), answers(spark4(0, true), version, 0));
  }

  @Test
  @DisplayName("A fresh query stands at -1 until its first batch is done")
  void fresh() throws Exception {
    Story third = new Story().batch(0).says(GETTING).committed(0).batch(1).committed(1);
    assertEquals(
        Set.of("unknown", "-1", "0"), answers(third, Spark3.MicroBatchExecution::new, NONE));
    Story fourth = new Story().context(-1, NONE).batch(0).says(GETTING).committed(0);
    fourth.context(1, 0).committed(1);
    assertEquals(
        Set.of("unknown", "-1", "0", "1"), answers(fourth, Spark4.MicroBatchExecution::new, NONE));
  }
}
