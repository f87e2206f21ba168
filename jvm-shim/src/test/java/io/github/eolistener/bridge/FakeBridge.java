package io.github.eolistener;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;

/** A program that plays the bridge, well or badly, and writes down what it is told. */
public final class FakeBridge {
  private final String part;
  private final Path heard;
  private final PrintStream out = System.out;

  private FakeBridge(String part, Path heard) {
    this.part = part;
    this.heard = heard;
  }

  /** The part to play, and the file to write into. */
  public static void main(String[] arguments) throws Exception {
    new FakeBridge(arguments[0], Path.of(arguments[1])).play();
  }

  private void play() throws Exception {
    note("pid " + ProcessHandle.current().pid());
    switch (part) {
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
    say("a start-up file of this site says hello");
    int format = part.equals("newer") ? 2 : 1;
    say("{\"v\":" + format + ",\"package\":\"unknown\",\"flush\":3.0,\"timeout\":8}");
    say("{\"ask\":1,\"what\":\"position\",\"run\":\"none\"}");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      note(line);
      JsonNode told = Message.parse(line.getBytes(StandardCharsets.UTF_8));
      if (told.has("ping") && !part.equals("silent")) {
        say("{\"pong\":" + told.get("ping") + "}");
      } else if (told.has("progress")) {
        misbehave();
      } else if (told.has("ended")) {
        say("{\"forget\":" + told.get("ended") + "}");
      } else if (told.has("end")) {
        if (part.equals("endless")) {
          TimeUnit.MINUTES.sleep(5);
        }
        System.exit(0);
      }
    }
    note("the driver is gone");
  }

  /** Once: the next one finds the file and behaves. */
  private void misbehave() throws IOException {
    if (Files.readString(heard).contains("misbehaves")) {
      return;
    }
    note("misbehaves");
    switch (part) {
      case "garbage":
        say("\u0000\u0001 pong?");
        break;
      case "dies":
        System.exit(5);
        break;
      default:
    }
  }

  private void say(String line) {
    out.print(line + "\n");
    out.flush();
  }

  private void note(String line) throws IOException {
    Files.writeString(
        heard, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }
}
