package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSortedMap;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.SortedMap;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.datapoints.DoubleDataPoint;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.core.datapoints.StringDataPoint;
import org.kairosdb.core.queue.DataPointEventSerializer;
import org.kairosdb.events.DataPointEvent;
import org.kairosdb.util.KDataOutput;

/** Our records are those of KairosDB's own serializer, and come back as what was put. */
class PointCodecTest {
  private static final String METRIC = "température";
  private final Records records = new Records();

  private static SortedMap<String, String> tags(String... tags) {
    ImmutableSortedMap.Builder<String, String> map = ImmutableSortedMap.naturalOrder();
    for (int i = 0; i < tags.length; i += 2) {
      map.put(tags[i], tags[i + 1]);
    }
    return map.build();
  }

  private byte[] record(DataPoint point, SortedMap<String, String> tags) throws Exception {
    RecordBuffer record = records.codec.record(METRIC, tags, point, 77);
    return Arrays.copyOf(record.bytes(), record.length());
  }

  private static List<DataPoint> points(long time) {
    return List.of(
        new DoubleDataPoint(time, 1.5),
        new LongDataPoint(time, -12345678901L),
        new LongDataPoint(time, 0),
        new StringDataPoint(time, "naïve \u0000 \uD83D\uDE00"));
  }

  @Test
  void theyAreThoseOfKairosDbsOwnSerializer() throws Exception {
    SortedMap<String, String> tags = tags("a", "1", "b", "ü", "ключ", "値");
    for (DataPoint point : points(1_700_000_000_123L)) {
      byte[] theirs =
          new DataPointEventSerializer(new BuiltInTypes())
              .serializeEvent(
                  new DataPointEvent(
                      METRIC, ImmutableSortedMap.copyOf(tags), point, 77));
      assertArrayEquals(theirs, record(point, tags));
    }
  }

  @Test
  void everyTypeComesBackWhoeverWroteIt() throws Exception {
    long time = 1_700_000_000_123L;
    SortedMap<String, String> tags = tags("a", "1", "b", "ü");
    for (DataPoint point : points(time)) {
      for (boolean noted : new boolean[] {true, false}) {
        MemoryFile file = new MemoryFile();
        RecordBuffer record = records.codec.record(METRIC, tags, point, 77);
        file.append(record.bytes(), 0, record.length(), noted ? record.tagsAt(0) : 0, 5);
        PointFile.Reader reader = file.reader();
        assertTrue(reader.load(0));
        int tagsAt = records.codec.tagsAt(reader);
        assertEquals(record.tagsAt(0), tagsAt);
        SeriesRecords back = new SeriesRecords(reader.bytes(), reader.length(), tagsAt);
        assertTrue(back.has(reader.bytes(), reader.length(), tagsAt));
        back.add(reader, tagsAt, 0, null);
        assertEquals(new Series(METRIC, tags, point.getDataStoreDataType()), back.series());
        Point got = back.points(new ArrayList<>()).get(0);
        KDataOutput value = new KDataOutput();
        point.writeValueToBuffer(value);
        assertArrayEquals(value.getBytes(), got.value());
        assertEquals(time, got.time());
        assertEquals(77, got.ttlS());
        assertEquals(5, got.takenAt());
      }
    }
  }

  @Test
  void seriesAreToldApart() throws Exception {
    Random random = new Random(3);
    List<RecordBuffer> all = new ArrayList<>();
    List<Series> series = new ArrayList<>();
    for (int i = 0; i < 300; i++) {
      String metric = "m" + random.nextInt(3);
      SortedMap<String, String> tags =
          random.nextBoolean()
              ? tags("a", "" + random.nextInt(5))
              : tags("a", "" + random.nextInt(5), "b", "" + random.nextInt(3));
      boolean whole = random.nextBoolean();
      DataPoint point = whole ? new LongDataPoint(i, i) : new StringDataPoint(i, "x" + i);
      all.add(new Records().codec.record(metric, tags, point, random.nextInt(9)));
      series.add(new Series(metric, tags, point.getDataStoreDataType()));
    }
    for (int i = 0; i < all.size(); i++) {
      RecordBuffer one = all.get(i);
      SeriesRecords of = new SeriesRecords(one.bytes(), one.length(), one.tagsAt(0));
      for (int j = 0; j < all.size(); j++) {
        RecordBuffer other = all.get(j);
        boolean same = series.get(i).equals(series.get(j));
        assertEquals(same, of.has(other.bytes(), other.length(), other.tagsAt(0)));
        assertEquals(same, one.key(0) == other.key(0));
        boolean sameMetric = series.get(i).metric().equals(series.get(j).metric());
        assertEquals(
            sameMetric,
            RecordBuffer.metricKey(series.get(i).metric()) == RecordBuffer.metricOf(other.key(0)));
      }
    }
  }

  @Test
  void whatIsNoPointIsSeen() throws Exception {
    byte[] record = record(new DoubleDataPoint(1, 1), tags("a", "1"));
    byte[] otherType = record.clone();
    int type = new String(record, java.nio.charset.StandardCharsets.ISO_8859_1).indexOf("kairos_");
    otherType[type] = 'X';
    for (byte[] none :
        List.of(new byte[0], new byte[60], Arrays.copyOf(record, record.length - 3), otherType)) {
      MemoryFile file = new MemoryFile();
      file.append(none, 0, none.length, 0, 5);
      PointFile.Reader reader = file.reader();
      reader.load(0);
      assertEquals(0, records.codec.tagsAt(reader));
    }
  }

  /** Of KairosDB's own queue, from before a plugin was taken out: it was acknowledged. */
  @Test
  void aPointOfATypeThatIsGoneIsADeadLetter() throws Exception {
    byte[] record = record(new DoubleDataPoint(1, 1), tags("a", "1"));
    int type = new String(record, java.nio.charset.StandardCharsets.ISO_8859_1).indexOf("kairos_");
    record[type] = 'X';
    MemoryFile file = new MemoryFile();
    file.append(record, 0, record.length, 0, 5);
    file.append(new byte[60], 0, 60, 0, 5);
    CoalescingQueue queue =
        new CoalescingQueue(file, records.codec, 0, 1 << 20, 0, () -> 0);
    assertEquals(2, queue.refill());
    assertEquals(0, queue.depth().waiting());
    assertEquals(1, records.unreadable.sum(), "the other one is nobody's point");
    assertEquals(1, records.strangers.size());
    DeadLetters.Letter letter = records.strangers.get(0);
    assertEquals("Xairos_double", letter.type());
    assertEquals(1, letter.point().time());
    assertEquals(5, letter.point().takenAt());
    assertTrue(letter.reason().contains("not registered"), letter.reason());
    // All that was behind the type: value and tags.
    int from = record.length - letter.point().value().length;
    assertArrayEquals(
        Arrays.copyOfRange(record, from, record.length), letter.point().value());
    assertEquals(type + "kairos_double".length(), from);
  }

  /** Of as many small ones the index would need more than a key can have. */
  @Test
  void tagsAreBoundedInNumberAndAsTheIndexHasThem() throws Exception {
    DataPoint point = new DoubleDataPoint(1, 1);
    record(point, many(1_000, 10));
    RefusedPointException many =
        assertThrows(RefusedPointException.class, () -> record(point, many(1_001, 1)));
    assertEquals("more than 1,000 tags", many.getMessage());
    // 4 + 1,000 * (4 + 4 + 4 + 52) = 64,004, and 4,000 less in the record.
    record(point, many(1_000, 52));
    assertThrows(RefusedPointException.class, () -> record(point, many(1_000, 54)));
  }

  /** Tags with names of four characters. */
  private static SortedMap<String, String> many(int count, int valueBytes) {
    SortedMap<String, String> tags = new TreeMap<>();
    for (int i = 0; i < count; i++) {
      tags.put("" + (1_000 + i), "x".repeat(valueBytes));
    }
    return tags;
  }

  @Test
  void whatNoStoreCanHoldIsRefused() throws Exception {
    DataPoint point = new DoubleDataPoint(1, 1);
    String half = "x".repeat(32_000);
    record(point, tags("a", half, "b", half));
    for (SortedMap<String, String> tooLong :
        List.of(
            tags("a", half, "b", half, "c", "x".repeat(2_000)),
            tags("a", "é".repeat(33_000)),
            tags("a", ":".repeat(33_000)))) {
      assertThrows(RefusedPointException.class, () -> record(point, tooLong));
    }
    // Longer than its encoding allows: KairosDB's serializer would log it and queue half a record.
    assertThrows(
        RefusedPointException.class,
        () -> record(new StringDataPoint(1, "x".repeat(70_000)), tags("a", "1")));
    assertThrows(
        RefusedPointException.class, () -> records.codec.record("", tags("a", "1"), point, 0));
  }
}
