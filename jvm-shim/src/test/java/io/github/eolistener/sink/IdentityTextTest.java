package io.github.eolistener.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Timestamp;
import org.apache.spark.sql.RowFactory;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class IdentityTextTest {
  private static String text(Object... values) {
    Object[] given = values.clone();
    boolean[] texts = new boolean[given.length];
    for (int i = 0; i < given.length; i++) {
      if (given[i] instanceof String) {
        texts[i] = true;
        given[i] = ((String) given[i]).getBytes(StandardCharsets.UTF_8);
      }
    }
    return new IdentityText(texts).call(RowFactory.create(given));
  }

  @Test
  @DisplayName("What is not UTF-8 has no text; a text may be null")
  void coded() {
    boolean[] isText = {true};
    Object[] wrong = {new byte[] {'a', -1}};
    Object[] none = {null};
    assertNull(new IdentityText(isText).call(RowFactory.create(wrong)));
    assertEquals("[null]", new IdentityText(isText).call(RowFactory.create(none)));
    assertEquals("[\"\\ufffd\"]", text("\ufffd"));
  }

  @Test
  @DisplayName("Texts have the escapes that Python's json has, and no other")
  void texts() {
    assertEquals("[\"flights\",0,5]", text("flights", 0, 5L));
    assertEquals("[\"a\\\"b\\\\c/\\n\\r\\t\\f\\b\"]", text("a\"b\\c/\n\r\t\f\b"));
    assertEquals("[\"\\u0000\\u001f ~\\u007f\"]", text("\u0000\u001f ~\u007f"));
    assertEquals("[\"\\u00e9\\u20ac\\ud83d\\ude00\"]", text("\u00e9\u20ac\ud83d\ude00"));
  }

  @Test
  @DisplayName("Other values are as Python writes them")
  void others() {
    assertEquals("[null,true,false,-7,8]", text(null, true, false, (byte) -7, (short) 8));
    assertEquals("[\"00ff7f\",\"\"]", text(new byte[] {0, -1, 127}, new byte[0]));
    assertEquals(
        "[\"1.50\",\"1E-7\",\"0E-10\",\"0.000001\"]",
        text(
            new BigDecimal("1.50"),
            new BigDecimal("0.0000001"),
            new BigDecimal("0.0000000000"),
            new BigDecimal("0.000001")));
  }

  @Test
  @DisplayName("What has no form is refused, whoever lets it through")
  void refused() {
    assertThrows(IllegalArgumentException.class, () -> text(new Timestamp(0)));
    assertThrows(IllegalArgumentException.class, () -> text(1.5));
  }
}
