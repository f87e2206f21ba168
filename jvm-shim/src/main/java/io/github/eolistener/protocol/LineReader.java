package io.github.eolistener.protocol;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/** Reads lines of another program, each cut off at a maximum length. */
public final class LineReader {
  private final InputStream input;
  private final int maxBytes;

  public LineReader(InputStream input, int maxBytes) {
    this.input = new BufferedInputStream(input, 1 << 16);
    this.maxBytes = maxBytes;
  }

  /** The next line without its line feed; null after the last. */
  public byte[] next() throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    for (int read = input.read(); read >= 0; read = input.read()) {
      if (read == '\n') {
        return line.toByteArray();
      }
      if (line.size() < maxBytes) {
        line.write(read);
      }
    }
    return line.size() == 0 ? null : line.toByteArray();
  }
}
