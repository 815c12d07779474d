package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.common.collect.ImmutableSortedMap;
import com.google.gson.JsonElement;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.datapoints.DataPointFactory;
import org.kairosdb.core.datapoints.DoubleDataPoint;
import org.kairosdb.core.datapoints.DoubleDataPointFactoryImpl;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.datapoints.StringDataPoint;
import org.kairosdb.core.datapoints.StringDataPointFactory;
import org.kairosdb.core.queue.DataPointEventSerializer;
import org.kairosdb.events.DataPointEvent;
import org.kairosdb.util.KDataInput;

/** Records of KairosDB's own serializer come back as what was put. */
class PointCodecTest {
  private final QueueStats stats = new QueueStats();
  private final Types types = new Types();
  private final PointCodec codec =
      new PointCodec(new DataPointEventSerializer(types), types, stats);

  /** KairosDB's own types by their names, without Guice. */
  private static final class Types implements KairosDataPointFactory {
    private final List<DataPointFactory> factories =
        List.of(
            new DoubleDataPointFactoryImpl(),
            new LongDataPointFactoryImpl(),
            new StringDataPointFactory());

    @Override
    public DataPoint createDataPoint(String type, long timestamp, JsonElement json) {
      throw new UnsupportedOperationException();
    }

    @Override
    public DataPoint createDataPoint(String type, long timestamp, KDataInput buffer)
        throws IOException {
      DataPointFactory factory = getFactoryForDataStoreType(type);
      if (factory == null) {
        throw new IllegalStateException("no such type: " + type);
      }
      return factory.getDataPoint(timestamp, buffer);
    }

    @Override
    public DataPointFactory getFactoryForType(String type) {
      throw new UnsupportedOperationException();
    }

    @Override
    public DataPointFactory getFactoryForDataStoreType(String type) {
      return factories.stream()
          .filter(factory -> factory.getDataStoreType().equals(type))
          .findFirst()
          .orElse(null);
    }

    @Override
    public String getGroupType(String type) {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean isRegisteredType(String type) {
      throw new UnsupportedOperationException();
    }
  }

  private static DataPointEvent event(DataPoint point, String... tags) {
    ImmutableSortedMap.Builder<String, String> map = ImmutableSortedMap.naturalOrder();
    for (int i = 0; i < tags.length; i += 2) {
      map.put(tags[i], tags[i + 1]);
    }
    return new DataPointEvent("température", map.build(), point, 77);
  }

  @Test
  void everyTypeComesBack() throws IOException {
    long time = 1_700_000_000_123L;
    for (DataPoint point :
        List.of(
            new DoubleDataPoint(time, 1.5),
            new LongDataPoint(time, -12345678901L),
            new StringDataPoint(time, "naïve"))) {
      DataPointEvent event = event(point, "a", "1", "b", "ü");
      Sample put = codec.sample(event);
      Sample back = codec.decode(0, codec.record(event));
      assertEquals(put.series(), back.series());
      assertEquals(put.series().hashCode(), back.series().hashCode());
      assertEquals(time, back.time());
      assertEquals(77, back.ttlS());
      assertArrayEquals(put.value(), back.value());
    }
  }

  @Test
  void aPageThatWasGivenUpIsPassedOver() {
    assertNull(codec.decode(0, new byte[0]));
    assertNull(codec.decode(0, new byte[60]));
    assertEquals(0, stats.unreadable.sum());
  }

  @Test
  void aRecordThatIsNoPointIsCountedAndPassedOver() {
    byte[] record = codec.record(event(new DoubleDataPoint(1, 1), "a", "1"));
    assertNull(codec.decode(0, Arrays.copyOf(record, record.length - 3)));
    byte[] otherType = record.clone();
    int type = new String(record, java.nio.charset.StandardCharsets.ISO_8859_1).indexOf("kairos_");
    otherType[type] = 'X';
    assertNull(codec.decode(0, otherType));
    assertEquals(2, stats.unreadable.sum());
  }

  @Test
  void whatNoStoreCanHoldIsRefused() throws IOException {
    DataPoint point = new DoubleDataPoint(1, 1);
    String half = "x".repeat(32_000);
    codec.sample(event(point, "a", half, "b", half));
    assertThrows(
        IllegalArgumentException.class,
        () -> codec.sample(event(point, "a", half, "b", half, "c", "x".repeat(2_000))));
    assertThrows(
        IllegalArgumentException.class,
        () -> codec.sample(event(point, "a", "é".repeat(33_000))));
    // Longer than its encoding allows: KairosDB's serializer would log it and queue half a record.
    assertThrows(
        IOException.class, () -> codec.sample(event(new StringDataPoint(1, "x".repeat(70_000)))));
  }
}
