package io.github.eolistener;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/** Reads lines that somebody else writes, none longer than a limit: the rest of it is left out. */
final class LineReader {
  private final InputStream input;
  private final int longest;

  LineReader(InputStream input, int longest) {
    this.input = new BufferedInputStream(input, 1 << 16);
    this.longest = longest;
  }

  /** The next line without its end; null after the last. */
  byte[] next() throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    for (int read = input.read(); read >= 0; read = input.read()) {
      if (read == '\n') {
        return line.toByteArray();
      }
      if (line.size() < longest) {
        line.write(read);
      }
    }
    return line.size() == 0 ? null : line.toByteArray();
  }
}
