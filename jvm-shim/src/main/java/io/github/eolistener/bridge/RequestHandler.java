package io.github.eolistener;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Optional;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Answers the bridge's questions about queries, on threads of its own. */
final class Clerk {
  private static final int THREADS = 2; // one may wait for a slow file system
  private static final int WAITING = 100;

  private final Mailbox mailbox;
  private final ThreadPoolExecutor answers = threads(THREADS, "eo-listener-answers");
  private final ThreadPoolExecutor ends = threads(1, "eo-listener-ends");

  Clerk(Mailbox mailbox) {
    this.mailbox = mailbox;
  }

  private static ThreadPoolExecutor threads(int number, String name) {
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(
            number,
            number,
            30,
            TimeUnit.SECONDS,
            new ArrayBlockingQueue<>(WAITING),
            work -> Bridge.thread(name, work));
    threads.allowCoreThreadTimeOut(true);
    return threads;
  }

  /** Takes a question; its answer, a line, goes to {@code reply} some time. */
  void ask(JsonNode question, AdminClients clients, Consumer<String> reply) {
    long number = question.path("ask").asLong();
    try {
      answers.execute(() -> reply.accept(answer(number, question, clients)));
    } catch (RejectedExecutionException full) {
      reply.accept(Message.failure(number, "too many questions wait"));
    }
  }

  /** A run has ended: soon it is known by its last answers alone, without Spark's object. */
  void conclude(Run run) {
    try {
      ends.execute(run.facts::conclude);
    } catch (RejectedExecutionException full) {
      run.facts.release(); // its newest event is left, and Spark's heap comes first
    }
  }

  void close() {
    answers.shutdownNow();
    ends.shutdownNow();
  }

  private String answer(long number, JsonNode question, AdminClients clients) {
    try {
      return Message.answer(number, found(question, clients));
    } catch (IllegalStateException known) {
      return Message.failure(number, known.getMessage()); // ours: it names classes and methods only
    } catch (Throwable error) {
      return Message.failure(number, error.getClass().getName()); // its message may hold a secret
    }
  }

  private String found(JsonNode question, AdminClients clients) {
    String what = question.path("what").asText();
    if (what.equals("hands")) {
      return done(question.path("call").asText(), question.path("argument").asText(), clients);
    }
    if (!QueryFacts.isKnown(what)) {
      throw new IllegalStateException("this shim does not know the question " + what);
    }
    Run run = mailbox.run(question.path("run").asText());
    if (run == null) {
      throw new IllegalStateException("the query is not known to the driver's listener");
    }
    return run.facts.answer(what);
  }

  private static String done(String call, String argument, AdminClients clients) {
    Optional<String> client = call.startsWith("groups.") ? client(argument) : Optional.empty();
    return client.isPresent()
        ? clients.use(client.get(), () -> Hands.call(call, argument))
        : Hands.call(call, argument);
  }

  private static Optional<String> client(String argument) {
    try {
      return Argument.of(argument).find("client");
    } catch (Refusal unfit) {
      return Optional.empty(); // the hands say what is wrong with it
    }
  }
}
