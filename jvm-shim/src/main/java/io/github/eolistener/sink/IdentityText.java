package io.github.eolistener.sink;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;

/**
 * The values of a row's identity as JSON, byte for byte as Python's {@code json.dumps} writes them
 * for {@code row_identity.py}: ASCII alone, without blanks, bytes as hex, decimals as text.
 */
final class IdentityText implements UDF1<Row, String> {
  private static final long serialVersionUID = 1L;

  private final boolean[] texts;

  /** For each value whether it is a text, whose bytes are given: Spark's need not be UTF-8. */
  IdentityText(boolean[] texts) {
    this.texts = texts.clone();
  }

  /** Null where a text is not UTF-8: decoded, two of them may be one. */
  @Override
  public String call(Row values) {
    StringBuilder text = new StringBuilder("[");
    for (int i = 0; i < values.length(); i++) {
      if (i > 0) {
        text.append(',');
      }
      Object value = values.get(i);
      if (texts[i] && value != null) {
        try {
          CharsetDecoder strict = StandardCharsets.UTF_8.newDecoder();
          quote(text, strict.decode(ByteBuffer.wrap((byte[]) value)).toString());
        } catch (CharacterCodingException other) {
          return null;
        }
      } else {
        append(text, value);
      }
    }
    return text.append(']').toString();
  }

  private static void append(StringBuilder text, Object value) {
    if (value == null
        || value instanceof Boolean
        || value instanceof Byte
        || value instanceof Short
        || value instanceof Integer
        || value instanceof Long) {
      text.append(value);
    } else if (value instanceof BigDecimal) {
      quote(text, value.toString()); // as Python's str(): Java has its rules for exponents
    } else if (value instanceof byte[]) {
      text.append('"');
      for (byte one : (byte[]) value) {
        text.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
      }
      text.append('"');
    } else {
      throw new IllegalArgumentException(value.getClass().getName());
    }
  }

  private static void quote(StringBuilder text, String value) {
    text.append('"');
    for (int i = 0; i < value.length(); i++) {
      char one = value.charAt(i);
      int known = "\"\\\n\r\t\f\b".indexOf(one);
      if (known >= 0) {
        text.append('\\').append("\"\\nrtfb".charAt(known));
      } else if (one >= ' ' && one <= '~') {
        text.append(one);
      } else {
        text.append(String.format(Locale.ROOT, "\\u%04x", (int) one));
      }
    }
    text.append('"');
  }
}
