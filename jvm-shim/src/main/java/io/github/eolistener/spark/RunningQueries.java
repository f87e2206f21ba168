package io.github.eolistener;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;

/** Finds the query behind an event. */
final class LiveQueries {
  private LiveQueries() {}

  /**
   * Gives {@code run} its query, from what all sessions of a SparkContext share; returns a session
   * of that context, or any, or null where there is none.
   */
  static SparkSession find(Run run) {
    List<SparkSession> sessions = sessions();
    for (SparkSession session : sessions) {
      Map<?, ?> active = session.sharedState().activeStreamingQueries();
      Object query = active.get(run.queryId);
      if (query != null && isRun(query, run.runId)) {
        run.facts.open(query);
        return session;
      }
    }
    return sessions.isEmpty() ? null : sessions.get(0);
  }

  private static boolean isRun(Object query, String runId) {
    return new LiveObject(query).ask("runId").get().toString().equals(runId);
  }

  /** The thread's own and the driver's; the first may be one of a SparkContext that is over. */
  private static List<SparkSession> sessions() {
    List<SparkSession> found = new ArrayList<>();
    for (String name : List.of("getActiveSession", "getDefaultSession")) {
      for (LiveObject session : option(name).elements()) {
        SparkSession one = (SparkSession) session.get();
        if (!one.sparkContext().isStopped()) {
          found.add(one);
        }
      }
    }
    return found;
  }

  /** By name: what these give is a type of Scala's. */
  private static LiveObject option(String name) {
    try {
      return new LiveObject(SparkSession.class.getMethod(name).invoke(null));
    } catch (ReflectiveOperationException absent) {
      throw new IllegalStateException("SparkSession." + name + "() cannot be called");
    }
  }
}
