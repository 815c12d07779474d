package io.kairoscope.kairosdb.queue;

import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SortedMap;
import java.util.concurrent.atomic.LongAdder;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.util.KDataInput;

/** A point as it is in a record, for tests outside of this package. */
public record Decoded(String metric, SortedMap<String, String> tags, DataPoint point, int ttlS) {
  /**
   * The points of all records, as KairosDB's own serializer reads them. Each is the record, to the
   * byte, that is made of the point's strings, and is found by the same key.
   */
  public static List<Decoded> of(RecordBuffer records, KairosDataPointFactory factories) {
    PointCodec codec = new PointCodec(factories, new LongAdder(), letter -> {});
    List<Decoded> points = new ArrayList<>();
    for (int i = 0; i < records.count(); i++) {
      int from = records.from(i);
      byte[] record = Arrays.copyOfRange(records.bytes(), from, from + records.length(i));
      try {
        KDataInput in = KDataInput.createInput(record);
        String metric = in.readUTF();
        int ttlS = in.readInt();
        long time = in.readLong();
        DataPoint point = factories.createDataPoint(in.readUTF(), time, in);
        List<String> tags = new ArrayList<>();
        ImmutableSortedMap.Builder<String, String> map = ImmutableSortedMap.naturalOrder();
        for (int left = in.readInt(); left > 0; left--) {
          tags.add(in.readUTF());
          map.put(tags.get(tags.size() - 1), in.readUTF());
        }
        if (!tags.equals(List.copyOf(map.build().keySet()))) {
          throw new IllegalStateException("not sorted: " + tags);
        }
        points.add(new Decoded(metric, map.build(), point, ttlS));
        RecordBuffer same = codec.record(metric, map.build(), point, ttlS);
        if (!Arrays.equals(record, 0, record.length, same.bytes(), 0, same.length())
            || records.tagsAt(i) != same.tagsAt(0)
            || records.key(i) != same.key(0)) {
          throw new IllegalStateException("another record: " + metric + map.build());
        }
      } catch (IOException | RefusedPointException error) {
        throw new IllegalStateException(error);
      }
    }
    return points;
  }

  /** Takes a record out. */
  public static void remove(RecordBuffer records, int record) {
    records.remove(record);
  }

  /** Notes that the first so many are in the file. */
  public static void take(RecordBuffer records, int count) {
    for (int i = records.taken(); i < count; i++) {
      records.take();
    }
  }
}
