package io.github.eolistener.requests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.kafka010.StreamDouble;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where a query began to read, from the files of its checkpoint. */
class BeginningInspectorTest {
  @TempDir Path checkpoint;

  private String inspect(Object... streams) {
    return BeginningInspector.inspect(new Query(List.of(streams), checkpoint));
  }

  private void write(int source, String content) throws IOException {
    Path folder = Files.createDirectories(checkpoint.resolve("sources/" + source));
    Files.writeString(folder.resolve("0"), content);
  }

  /** Kafka sources by the index of the distinct source; the bytes of the file are the answer. */
  @Test
  void returnsTheFileOfEachKafkaSource() throws IOException {
    Object twice = new StreamDouble();
    write(0, "another source's own");
    write(1, "\0v1\n{\"a\":{\"0\":5}}");
    assertEquals(
        "[{\"index\":1,\"content\":\"\\u0000v1\\n{\\\"a\\\":{\\\"0\\\":5}}\"}]",
        sources(inspect(new Object(), twice, twice, new StreamDouble())));
    assertEquals("[]", sources(inspect()));
  }

  /** An unreadable file is a failure, and the message has no path. */
  @Test
  void refusesWhatIsNoFile() throws IOException {
    Files.createDirectories(checkpoint.resolve("sources/0/0"));
    IllegalStateException failed =
        assertThrows(IllegalStateException.class, () -> inspect(new StreamDouble()));
    assertTrue(!failed.getMessage().contains(checkpoint.toString()));
  }

  private static String sources(String answer) {
    assertTrue(answer.contains("\"v\":1"), answer);
    int start = answer.indexOf('[');
    return answer.substring(start, answer.lastIndexOf(']') + 1);
  }

  /** As StreamExecution, its session and the state of that session. */
  public static final class Query {
    private final List<Object> streams;
    private final Path checkpoint;

    Query(List<Object> streams, Path checkpoint) {
      this.streams = streams;
      this.checkpoint = checkpoint;
    }

    public QueryDouble.Seq sources() {
      return new QueryDouble.Seq(streams);
    }

    public String resolvedCheckpointRoot() {
      return checkpoint.toUri().toString();
    }

    public Query sparkSessionForStream() {
      return this;
    }

    public Query sessionState() {
      return this;
    }

    public Configuration newHadoopConf() {
      return new Configuration();
    }
  }
}
