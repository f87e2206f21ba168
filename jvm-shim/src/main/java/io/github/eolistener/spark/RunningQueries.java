package io.github.eolistener.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;
import org.apache.spark.sql.SparkSession;

/** Finds the running query that an event is about. */
public final class RunningQueries {
  private RunningQueries() {}

  /**
   * Passes the query that runs under both ids to {@code found}, in whichever session it was
   * started. Returns a session of its SparkContext; without such a query any session, null where
   * there is none.
   */
  public static SparkSession find(UUID queryId, String runId, Consumer<Object> found) {
    List<SparkSession> sessions = sessions();
    for (SparkSession session : sessions) {
      Map<?, ?> active = session.sharedState().activeStreamingQueries();
      Object query = active.get(queryId);
      if (query != null && isRun(query, runId)) {
        found.accept(query);
        return session;
      }
    }
    return sessions.isEmpty() ? null : sessions.get(0);
  }

  private static boolean isRun(Object query, String runId) {
    return new SparkObject(query).call("runId").get().toString().equals(runId);
  }

  /** The thread's active session and the default one, without those of a stopped SparkContext. */
  private static List<SparkSession> sessions() {
    List<SparkSession> found = new ArrayList<>();
    for (String name : List.of("getActiveSession", "getDefaultSession")) {
      for (SparkObject session : option(name).elements()) {
        SparkSession one = (SparkSession) session.get();
        if (!one.sparkContext().isStopped()) {
          found.add(one);
        }
      }
    }
    return found;
  }

  /** Called by name, since these methods return a Scala type. */
  private static SparkObject option(String name) {
    try {
      return new SparkObject(SparkSession.class.getMethod(name).invoke(null));
    } catch (ReflectiveOperationException absent) {
      throw new IllegalStateException("SparkSession." + name + "() cannot be called");
    }
  }
}
