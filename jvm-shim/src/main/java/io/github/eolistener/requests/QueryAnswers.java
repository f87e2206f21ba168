package io.github.eolistener.requests;

import io.github.eolistener.spark.ExecutionMode;
import io.github.eolistener.spark.SparkQuery;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * The answers to what the bridge asks about one run: from Spark's own object while the run is
 * active, afterwards from the answers taken at its end. That object holds the whole plan of the
 * query, 0.5 MB and more, which must not be kept for a bridge that asks late or never.
 *
 * <p>Answers hold passwords, as Spark's object does.
 */
public final class QueryAnswers {
  private static final String ENDED = "ended";
  private static final Map<String, Function<Object, String>> QUESTIONS =
      Map.of(
          "sources", SourceInspector::inspect,
          "position", PositionInspector::inspect,
          "beginnings", BeginningInspector::inspect,
          "mode", query -> ExecutionMode.of(new SparkQuery(query).execution()).name(),
          ENDED, query -> String.valueOf(new SparkQuery(query).hasEnded()));

  private volatile Object execution;
  private volatile Map<String, Answer> frozen;

  /** {@code query}: Spark's StreamExecution, or the StreamingQueryWrapper around one. */
  public void attach(Object query) {
    execution = query;
  }

  public static boolean isKnown(String what) {
    return QUESTIONS.containsKey(what);
  }

  /**
   * The answer to a known question.
   *
   * @throws IllegalStateException with the reason why there is none, never a secret
   */
  public String answer(String what) {
    Object active = execution;
    if (active != null) {
      return QUESTIONS.get(what).apply(active);
    }
    Map<String, Answer> answers = frozen;
    if (answers == null) {
      throw new IllegalStateException("the query is not known to the driver's listener");
    }
    return answers.get(what).text();
  }

  /** The run has ended: keeps its last answers and drops Spark's object. May read files. */
  public void freeze() {
    Object ended = execution;
    if (ended != null) {
      Map<String, Answer> answers = new TreeMap<>();
      QUESTIONS.forEach((what, question) -> answers.put(what, Answer.of(question, ended)));
      answers.put(ENDED, Answer.of(query -> "true", ended));
      frozen = answers; // before the next line: `answer` must find one of them at any time
      execution = null;
    }
  }

  /** Drops Spark's object; only what {@link #freeze} has kept can be answered then. */
  public void release() {
    execution = null;
  }

  /** An answer, or why there is none. */
  private static final class Answer {
    private final String text;
    private final String cause;

    private Answer(String text, String cause) {
      this.text = text;
      this.cause = cause;
    }

    static Answer of(Function<Object, String> question, Object query) {
      try {
        return new Answer(question.apply(query), null);
      } catch (IllegalStateException known) {
        return new Answer(null, known.getMessage()); // ours: it names classes and methods only
      } catch (RuntimeException | LinkageError error) {
        return new Answer(null, error.getClass().getName()); // its message may hold a secret
      }
    }

    String text() {
      if (text == null) {
        throw new IllegalStateException(cause);
      }
      return text;
    }
  }
}
