package io.github.eolistener;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Answers the bridge's questions about running queries, on threads of its own. */
final class Clerk {
  private static final int THREADS = 2; // one may wait for a slow file system
  private static final int WAITING = 100;

  private final Mailbox mailbox;
  private final ThreadPoolExecutor threads =
      new ThreadPoolExecutor(
          THREADS,
          THREADS,
          30,
          TimeUnit.SECONDS,
          new ArrayBlockingQueue<>(WAITING),
          work -> Bridge.thread("eo-listener-answers", work));

  Clerk(Mailbox mailbox) {
    this.mailbox = mailbox;
    threads.allowCoreThreadTimeOut(true);
  }

  /** Takes a question; its answer, a line, goes to {@code reply} some time. */
  void ask(JsonNode question, Consumer<String> reply) {
    long number = question.path("ask").asLong();
    try {
      threads.execute(() -> reply.accept(answer(number, question)));
    } catch (RejectedExecutionException full) {
      reply.accept(Message.failure(number, "too many questions wait"));
    }
  }

  void close() {
    threads.shutdownNow();
  }

  private String answer(long number, JsonNode question) {
    try {
      return Message.answer(number, found(question));
    } catch (IllegalStateException known) {
      return Message.failure(number, known.getMessage()); // ours: it names classes and methods only
    } catch (Throwable error) {
      return Message.failure(number, error.getClass().getName()); // its message may hold a secret
    }
  }

  private String found(JsonNode question) {
    String what = question.path("what").asText();
    switch (what) {
      case "sources":
        return SourceInspector.inspect(execution(question));
      case "position":
        return PositionInspector.inspect(execution(question));
      case "mode":
        return ExecutionMode.of(new LiveQuery(execution(question)).execution()).name();
      case "ended":
        return String.valueOf(new LiveQuery(execution(question)).hasEnded());
      case "hands":
        return Hands.call(question.path("call").asText(), question.path("argument").asText());
      default:
        throw new IllegalStateException("this shim does not know the question " + what);
    }
  }

  private Object execution(JsonNode question) {
    Run run = mailbox.run(question.path("run").asText());
    if (run == null || run.execution == null) {
      throw new IllegalStateException("the query is not known to the driver's listener");
    }
    return run.execution;
  }
}
