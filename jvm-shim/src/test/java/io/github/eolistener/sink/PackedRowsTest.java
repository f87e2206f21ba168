package io.github.eolistener.sink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.eolistener.kafka.TargetPartitions;
import io.github.eolistener.kafka.TaskProducers;
import io.github.eolistener.protocol.CallArguments;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import scala.Option;

class PackedRowsTest {
  private static int opened;
  private static int closed;

  /** Counts itself. */
  public static final class Counted implements Partitioner {
    @Override
    public void configure(Map<String, ?> properties) {
      opened++;
    }

    @Override
    public int partition(
        String topic, Object key, byte[] keyBytes, Object value, byte[] bytes, Cluster cluster) {
      return 1;
    }

    @Override
    public void close() {
      closed++;
    }
  }

  /** A record as it comes out of a pack. */
  private static final class Found {
    final int target;
    final byte[] key;
    final byte[] value;
    final RecordHeaders headers;

    Found(int target, byte[] key, byte[] value, RecordHeaders headers) {
      this.target = target;
      this.key = key;
      this.value = value;
      this.headers = headers;
    }
  }

  @AfterEach
  void leaveNoTask() {
    TaskContext$.MODULE$.unset();
  }

  private static CallArguments topic(int partitions, int tasks, String more) {
    return CallArguments.of(
        "{\"topics\":[[\"a\"," + partitions + "]],\"tasks\":" + tasks + more + "}");
  }

  private static byte[] bytes(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }

  private static InternalRow row(String key, byte[] value, Integer partition, boolean marked) {
    return new GenericInternalRow(new Object[] {null, bytes(key), value, null, partition, marked});
  }

  private static InternalRow row(int number, Integer partition) {
    return row("k" + number, bytes("v" + number), partition, false);
  }

  private static InternalRow header(Object key, Object value) {
    return new GenericInternalRow(new Object[] {key, value});
  }

  private static InternalRow withHeaders(Object... headers) {
    Object[] row = {null, null, null, new GenericArrayData(headers), 0, false};
    return new GenericInternalRow(row);
  }

  private static List<Row> packs(CallArguments given, int number, List<InternalRow> rows) {
    List<Row> packs = new ArrayList<>();
    new PackedRows.Packing(given).call(number, rows.iterator()).forEachRemaining(packs::add);
    return packs;
  }

  private static InternalRow internal(Row pack) {
    return new GenericInternalRow(new Object[] {pack.get(0), pack.get(1), pack.get(2)});
  }

  private static List<Found> records(List<Row> packs) {
    List<Found> found = new ArrayList<>();
    for (Row pack : packs) {
      RecordPack.read(
          internal(pack),
          PackedRows.AT_PACK,
          (target, key, value, headers) -> found.add(new Found(target, key, value, headers)));
    }
    return found;
  }

  @Test
  @DisplayName("Records come out as they went in: nothing, null and bytes are not the same")
  void roundTrip() {
    List<Found> found =
        records(
            packs(
                topic(1, 1, ""),
                0,
                List.of(
                    row(null, null, null, false),
                    row("", new byte[0], null, false),
                    row("é\0", new byte[] {-1, 0, 1}, 0, false),
                    withHeaders(),
                    withHeaders(
                        header(UTF8String.fromString("é"), bytes("1")),
                        header(UTF8String.fromString(""), null)))));
    assertNull(found.get(0).key);
    assertNull(found.get(0).value);
    assertNull(found.get(0).headers);
    assertEquals(0, found.get(1).key.length);
    assertEquals(0, found.get(1).value.length);
    assertArrayEquals(bytes("é\0"), found.get(2).key);
    assertArrayEquals(new byte[] {-1, 0, 1}, found.get(2).value);
    assertEquals(0, found.get(3).headers.toArray().length);
    Header[] headers = found.get(4).headers.toArray();
    assertEquals(List.of("é", ""), List.of(headers[0].key(), headers[1].key()));
    assertArrayEquals(bytes("1"), headers[0].value());
    assertNull(headers[1].value());
  }

  @Test
  @DisplayName("Sorted by their places, the packs of a task have its rows in their old order")
  void order() {
    CallArguments given = topic(5, 2, "");
    int rows = 20_000;
    List<Row> packs = new ArrayList<>();
    for (int number = 0; number < 3; number++) {
      int first = number * rows;
      packs.addAll(
          packs(
              given,
              number,
              IntStream.range(first, first + rows)
                  .mapToObj(each -> row(each, each % 5))
                  .collect(Collectors.toList())));
    }
    assertTrue(packs.size() > 12, "several packs of a task: " + packs.size());
    packs.sort(Comparator.comparing((Row pack) -> pack.getLong(1)));
    int seen = 0;
    for (int task = 0; task < 2; task++) {
      int key = new TaskKeys(2).key(task);
      List<Row> own =
          packs.stream().filter(pack -> pack.getInt(0) == key).collect(Collectors.toList());
      int last = -1;
      for (Found one : records(own)) {
        int number = Integer.parseInt(new String(one.key, StandardCharsets.UTF_8).substring(1));
        assertTrue(number > last, number + " behind " + last);
        assertEquals(number % 5, one.target);
        assertEquals(task, one.target % 2);
        last = number;
        seen++;
      }
    }
    assertEquals(3 * rows, seen);
  }

  @Test
  @DisplayName("A task takes the packs of several tasks in any order, those of one only in its own")
  void orderIsSeen() {
    CallArguments given = topic(1, 1, ",\"properties\":{}");
    PackWriter writer =
        new PackWriter(TaskProducers.of(given), TargetPartitions.of(given), new int[] {0, 1, 0});
    List<InternalRow> packs = new ArrayList<>();
    for (int number = 0; number < 2; number++) {
      List<InternalRow> rows =
          IntStream.range(0, 10_000).mapToObj(each -> row(each, 0)).collect(Collectors.toList());
      packs(given, number, rows).forEach(pack -> packs.add(internal(pack)));
    }
    int half = packs.size() / 2;
    assertTrue(half > 1, "several packs of a task: " + half);
    packs.subList(half, packs.size()).forEach(writer::write);
    writer.write(packs.get(1));
    assertThrows(IllegalStateException.class, () -> writer.write(packs.get(0)));
    assertThrows(IllegalStateException.class, () -> writer.write(packs.get(half + 1)));
  }

  @Test
  @DisplayName("A pack that ends within a record is refused: what lies behind it is not its own")
  void cutShort() {
    byte[] pack =
        (byte[]) packs(topic(1, 1, ""), 0, List.of(row(1, 0))).get(0).get(PackedRows.AT_PACK);
    for (int size = 1; size < pack.length; size++) {
      Row cut = RowFactory.create(0, 0L, Arrays.copyOf(pack, size));
      assertThrows(IllegalStateException.class, () -> records(List.of(cut)), "of " + size);
    }
  }

  @Test
  @DisplayName("A pack is read from Spark's own memory as from an array")
  void unsafe() {
    Row pack = packs(topic(2, 1, ""), 0, List.of(row(1, 0), row("é", null, 1, false))).get(0);
    InternalRow kept = UnsafeProjection.create(PackedRows.encoder().schema()).apply(internal(pack));
    List<Found> found = new ArrayList<>();
    RecordPack.read(
        kept,
        PackedRows.AT_PACK,
        (target, key, value, headers) -> found.add(new Found(target, key, value, headers)));
    assertArrayEquals(bytes("k1"), found.get(0).key);
    assertArrayEquals(bytes("v1"), found.get(0).value);
    assertArrayEquals(bytes("é"), found.get(1).key);
    assertNull(found.get(1).value);
    assertEquals(1, found.get(1).target);
  }

  @Test
  @DisplayName("A pack ends when it is large enough, whatever one record adds, and is less for many tasks")
  void sizes() {
    byte[] large = new byte[3 << 20];
    Arrays.fill(large, (byte) 7);
    List<InternalRow> rows =
        List.of(row("a", large, 0, false), row("b", bytes("x"), 0, false), row("c", large, 0, false));
    List<Row> packs = packs(topic(1, 1, ""), 0, rows);
    assertEquals(2, packs.size());
    assertArrayEquals(large, records(packs).get(2).value);
    List<InternalRow> many =
        IntStream.range(0, 4000).mapToObj(each -> row(each, 0)).collect(Collectors.toList());
    int one = packs(topic(1, 1, ""), 0, many).size();
    int thousand = packs(topic(1, 1000, ""), 0, many).size();
    assertTrue(one < thousand, one + " < " + thousand);
  }

  @Test
  @DisplayName("What a large record took is given back, so that each task may get one")
  void memory() {
    RecordPack.Writer writer = new RecordPack.Writer(4096);
    for (int record = 0; record < 64; record++) {
      writer.add(0, row("k", new byte[64], 0, false), null);
    }
    assertTrue(writer.isFull());
    writer.take();
    int usual = writer.memory();
    assertTrue(usual >= 4096, "kept for the next pack: " + usual);
    writer.add(0, row("k", new byte[3 << 20], 0, false), null);
    assertTrue(writer.memory() > 3 << 20);
    assertEquals(1, records(List.of(RowFactory.create(0, 0L, writer.take()))).size());
    assertTrue(writer.memory() <= usual, writer.memory() + " of " + usual);
  }

  @Test
  @DisplayName("Rows that go nowhere are packed by their reason, and come to all tasks")
  void refused() {
    List<Row> packs =
        packs(
            topic(1, 2, ""),
            0,
            List.of(
                row(0, 7),
                row(1, -1),
                row("m", null, 0, true),
                withHeaders(header(null, bytes("x"))),
                withHeaders((Object) null)));
    List<Integer> reasons =
        records(packs).stream().map(one -> one.target).sorted().collect(Collectors.toList());
    assertEquals(List.of(-5, -4, -4, -3, -3), reasons);
    assertEquals(2, packs.size());
  }

  @Test
  @DisplayName("A task without rows has no pack")
  void nothing() {
    Iterator<Row> none =
        new PackedRows.Packing(topic(1, 2, "")).call(0, new ArrayList<InternalRow>().iterator());
    assertThrows(NoSuchElementException.class, none::next);
  }

  @Test
  @DisplayName("Each task opens one partitioner of the user's, and closes it with its end")
  void closedWithItsTask() {
    CallArguments arguments =
        topic(
            3,
            1,
            ",\"partitionerProperties\":{},\"partitioner\":\"" + Counted.class.getName() + "\"");
    for (int task = 1; task <= 3; task++) {
      TaskContextImpl context = TaskContext$.MODULE$.empty();
      TaskContext$.MODULE$.setTaskContext(context);
      List<InternalRow> rows =
          List.of(row(0, null), row(1, null), row(2, 2), row("m", null, null, true));
      List<Integer> targets =
          records(packs(arguments, 0, rows)).stream()
              .map(one -> one.target)
              .collect(Collectors.toList());
      assertEquals(List.of(1, 1, 2, RowColumns.MARKED), targets);
      assertEquals(task, opened);
      assertEquals(task - 1, closed);
      context.markTaskCompleted(Option.empty());
      assertEquals(task, closed);
    }
  }

  @Test
  @DisplayName("Spark's hash brings the partitions to all tasks alike")
  void tasks() {
    TaskKeys keys = new TaskKeys(7);
    for (int target = 0; target < 7; target++) {
      assertEquals(target, Math.floorMod(Murmur3_x86_32.hashInt(keys.call(target, 0L), 42), 7));
    }
  }
}
