package io.github.eolistener.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.events.EventQueue;
import io.github.eolistener.events.QueryRun;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.Message;
import io.github.eolistener.protocol.RefusedException;
import io.github.eolistener.requests.QueryAnswers;
import io.github.eolistener.requests.ShimCalls;
import java.util.Optional;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Answers the requests of the bridge process, on threads of its own. */
final class RequestHandler {
  private static final int THREADS = 2; // one may wait for a slow file system
  private static final int MAX_WAITING = 100;

  private final EventQueue queue;
  private final ThreadPoolExecutor answers = threads(THREADS, "eo-listener-answers");
  private final ThreadPoolExecutor ends = threads(1, "eo-listener-ends");

  RequestHandler(EventQueue queue) {
    this.queue = queue;
  }

  private static ThreadPoolExecutor threads(int number, String name) {
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(
            number,
            number,
            30,
            TimeUnit.SECONDS,
            new ArrayBlockingQueue<>(MAX_WAITING),
            work -> Bridge.thread(name, work));
    threads.allowCoreThreadTimeOut(true);
    return threads;
  }

  /** Takes a request and returns at once; later its answer, one line, goes to {@code reply}. */
  void handle(JsonNode request, AdminClients clients, Consumer<String> reply) {
    long number = request.path("ask").asLong();
    try {
      answers.execute(() -> reply.accept(answer(number, request, clients)));
    } catch (RejectedExecutionException full) {
      reply.accept(Message.failure(number, "too many requests are waiting"));
    }
  }

  /** A run has ended: soon it answers from its last answers alone, without Spark's object. */
  void runEnded(QueryRun run) {
    try {
      ends.execute(run.answers::freeze);
    } catch (RejectedExecutionException full) {
      run.answers.release(); // its newest event remains, and Spark's heap has priority
    }
  }

  void close() {
    answers.shutdownNow();
    ends.shutdownNow();
  }

  private String answer(long number, JsonNode request, AdminClients clients) {
    try {
      return Message.answer(number, result(request, clients));
    } catch (IllegalStateException known) {
      return Message.failure(number, known.getMessage()); // ours: it names classes and methods only
    } catch (Throwable error) {
      return Message.failure(number, error.getClass().getName()); // its message may hold a secret
    }
  }

  private String result(JsonNode request, AdminClients clients) {
    String what = request.path("what").asText();
    if (what.equals("call")) {
      return call(request.path("call").asText(), request.path("argument").asText(), clients);
    }
    if (!QueryAnswers.isKnown(what)) {
      throw new IllegalStateException("this shim does not know the request " + what);
    }
    QueryRun run = queue.run(request.path("run").asText());
    if (run == null) {
      throw new IllegalStateException("the query is not known to the driver's listener");
    }
    return run.answers.answer(what);
  }

  private static String call(String name, String argument, AdminClients clients) {
    Optional<String> client = name.startsWith("groups.") ? client(argument) : Optional.empty();
    return client.isPresent()
        ? clients.use(client.get(), () -> ShimCalls.call(name, argument))
        : ShimCalls.call(name, argument);
  }

  private static Optional<String> client(String argument) {
    try {
      return CallArguments.of(argument).find("client");
    } catch (RefusedException invalid) {
      return Optional.empty(); // the call itself reports what is wrong with it
    }
  }
}
