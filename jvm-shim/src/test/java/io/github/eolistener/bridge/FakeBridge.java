package io.github.eolistener.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.eolistener.protocol.Message;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;

/** A program in the place of the bridge that works or fails, and records what it is sent. */
public final class FakeBridge {
  private final String behaviour;
  private final Path received;
  private final PrintStream out = System.out;

  private FakeBridge(String behaviour, Path received) {
    this.behaviour = behaviour;
    this.received = received;
  }

  /** How to behave, and the file to write into. */
  public static void main(String[] arguments) throws Exception {
    new FakeBridge(arguments[0], Path.of(arguments[1])).run();
  }

  private void run() throws Exception {
    note("pid " + ProcessHandle.current().pid());
    switch (behaviour) {
      case "missing":
        System.err.println("/opt/python: No module named eo_listener");
        System.exit(1);
        break;
      case "crash":
        System.err.println("it cannot load libssl.so.3");
        System.exit(9);
        break;
      case "settings":
        System.err.println("ERROR mode is 'x', which is not known");
        System.exit(78);
        break;
      default:
        serve();
    }
  }

  private void serve() throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    note(in.readLine());
    write("a line of a start-up file");
    int format = behaviour.equals("newer") ? 2 : 1;
    write("{\"v\":" + format + ",\"package\":\"unknown\",\"flush\":3.0,\"timeout\":8}");
    write("{\"ask\":1,\"what\":\"position\",\"run\":\"none\"}");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      note(line);
      JsonNode message = Message.parse(line.getBytes(StandardCharsets.UTF_8));
      if (message.has("ping") && !behaviour.equals("silent")) {
        write("{\"pong\":" + message.get("ping") + "}");
      } else if (message.has("progress")) {
        fail();
      } else if (message.has("ended")) {
        write("{\"forget\":" + message.get("ended") + "}");
      } else if (message.has("end")) {
        if (behaviour.equals("endless")) {
          TimeUnit.MINUTES.sleep(5);
        }
        System.exit(0);
      }
    }
    note("the driver has exited");
  }

  /** Once: the next process finds the file and works. */
  private void fail() throws IOException {
    if (Files.readString(received).contains("fails now")) {
      return;
    }
    note("fails now");
    switch (behaviour) {
      case "invalid":
        write("\u0000\u0001 pong?");
        break;
      case "exits":
        System.exit(5);
        break;
      default:
    }
  }

  private void write(String line) {
    out.print(line + "\n");
    out.flush();
  }

  private void note(String line) throws IOException {
    Files.writeString(
        received, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }
}
