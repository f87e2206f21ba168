package io.github.eolistener.requests;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.eolistener.spark.SparkObject;
import io.github.eolistener.spark.SparkQuery;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Returns the offsets at which a streaming query began to read, from its checkpoint. */
final class BeginningInspector {
  private static final int FORMAT = 1;

  private BeginningInspector() {}

  /**
   * The answer is {@code {"v":1,"sources":[{"index":i,"content":text}]}}. {@code index} counts as
   * the progress event's {@code sources} does; {@code content} is that of {@code sources/<i>/0},
   * which Spark writes before the first batch. Kafka sources only; those without that file are left
   * out.
   *
   * @throws IllegalStateException when Spark's objects are not as expected, or a file is unreadable
   */
  static String inspect(Object query) {
    SparkQuery spark = new SparkQuery(query);
    List<Map<String, Object>> sources = new ArrayList<>();
    try {
      List<Object> streams = spark.distinctStreams();
      for (int index = 0; index < streams.size(); index++) {
        if (SparkQuery.isKafka(streams.get(index))) {
          String content = content(spark.execution(), index);
          if (content != null) {
            Map<String, Object> source = new LinkedHashMap<>();
            source.put("index", index);
            source.put("content", content);
            sources.add(source);
          }
        }
      }
      return new ObjectMapper().writeValueAsString(Map.of("v", FORMAT, "sources", sources));
    } catch (IOException failed) {
      throw new IllegalStateException("sources/ cannot be read: " + failed.getClass().getName());
    }
  }

  private static String content(SparkObject execution, int index) throws IOException {
    SparkObject session = execution.call("sparkSessionForStream");
    Object configuration = session.call("sessionState").call("newHadoopConf").get();
    String root = execution.call("resolvedCheckpointRoot").get().toString();
    Path path = new Path(root, "sources/" + index + "/0");
    FileSystem files = path.getFileSystem((Configuration) configuration);
    if (!files.exists(path)) {
      return null;
    }
    try (InputStream file = files.open(path)) {
      return new String(file.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
