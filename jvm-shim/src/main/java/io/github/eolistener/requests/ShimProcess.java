package io.github.eolistener.requests;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.eolistener.protocol.CallArguments;
import io.github.eolistener.protocol.LineReader;
import io.github.eolistener.protocol.RefusedException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * The shim in a JVM of its own, for a command that has no Spark: it makes the calls that come on
 * standard input, one after the other, until that is closed.
 *
 * <p>A line is {@code {"call","argument"}}, the texts that {@link ShimCalls#call} takes; its answer a
 * line {@code {"answer"}}, or {@code {"failed":why}}.
 */
public final class ShimProcess {
  private static final int MAX_BYTES = 1 << 26;
  private static final ObjectMapper JSON = new ObjectMapper();

  private ShimProcess() {}

  public static void main(String[] arguments) throws IOException {
    OutputStream answers = System.out;
    System.setOut(System.err); // what a library prints is no answer
    serve(System.in, answers);
  }

  static void serve(InputStream calls, OutputStream answers) throws IOException {
    LineReader lines = new LineReader(calls, MAX_BYTES);
    for (byte[] line = lines.next(); line != null; line = lines.next()) {
      answers.write(JSON.writeValueAsBytes(answer(new String(line, StandardCharsets.UTF_8))));
      answers.write('\n');
      answers.flush();
    }
  }

  private static Map<String, String> answer(String line) {
    try {
      CallArguments call = CallArguments.of(line);
      return Map.of("answer", ShimCalls.call(call.text("call"), call.text("argument")));
    } catch (IllegalStateException | RefusedException failed) { // the texts of both are our own
      return Map.of("failed", failed.getMessage());
    }
  }
}
