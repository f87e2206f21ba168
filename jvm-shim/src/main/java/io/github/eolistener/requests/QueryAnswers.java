package io.github.eolistener;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * What the bridge may ask of one run: of Spark's own object while the run lives, afterwards of texts
 * that were taken at its end. That object holds the query's whole plan, 0.5 MB and more, which must
 * not stay for a bridge that comes late or never.
 *
 * <p>Its texts hold passwords, as Spark's object does.
 */
final class QueryFacts {
  private static final String ENDED = "ended";
  private static final Map<String, Function<Object, String>> QUESTIONS =
      Map.of(
          "sources", SourceInspector::inspect,
          "position", PositionInspector::inspect,
          "mode", query -> ExecutionMode.of(new LiveQuery(query).execution()).name(),
          ENDED, query -> String.valueOf(new LiveQuery(query).hasEnded()));

  private volatile Object execution;
  private volatile Map<String, Answer> last;

  /** Takes Spark's StreamExecution, or the StreamingQueryWrapper around one. */
  void open(Object query) {
    execution = query;
  }

  static boolean isKnown(String what) {
    return QUESTIONS.containsKey(what);
  }

  /**
   * The answer to a question that is known.
   *
   * @throws IllegalStateException saying why there is none, never a secret
   */
  String answer(String what) {
    Object live = execution;
    if (live != null) {
      return QUESTIONS.get(what).apply(live);
    }
    Map<String, Answer> texts = last;
    if (texts == null) {
      throw new IllegalStateException("the query is not known to the driver's listener");
    }
    return texts.get(what).text();
  }

  /** The run has ended: keeps its last answers, and lets Spark's object go. May read its logs. */
  void conclude() {
    Object ended = execution;
    if (ended != null) {
      Map<String, Answer> texts = new TreeMap<>();
      QUESTIONS.forEach((what, question) -> texts.put(what, Answer.of(question, ended)));
      texts.put(ENDED, Answer.of(over -> "true", ended));
      last = texts; // before the other, for `answer` finds one of them at any time
      execution = null;
    }
  }

  /** Lets Spark's object go; nothing more can be said but what was said at the end. */
  void release() {
    execution = null;
  }

  /** A text, or why there is none. */
  private static final class Answer {
    private final String text;
    private final String why;

    private Answer(String text, String why) {
      this.text = text;
      this.why = why;
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
        throw new IllegalStateException(why);
      }
      return text;
    }
  }
}
