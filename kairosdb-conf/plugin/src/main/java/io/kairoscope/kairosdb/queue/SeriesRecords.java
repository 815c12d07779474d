package io.kairoscope.kairosdb.queue;

import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.kairosdb.util.KDataInput;

/**
 * Records of one series. What of a record is the series is the same bytes in each, so the others are
 * compared with the first, and only that one's strings are made.
 */
final class SeriesRecords {
  // A string, its array and its place in a map, without its characters.
  static final int WORD_BYTES = 64;
  // Of a series whose share is in that of its points.
  private static final int USUAL_BYTES = 1 << 10;

  private final byte[] first;
  private final int metricEnd;
  private final int typeAt;
  private final int valueAt;
  private final int tagsAt;
  private final List<Point> points = new ArrayList<>();
  private boolean inOrder = true;

  SeriesRecords(byte[] record, int length, int tagsAt) {
    first = Arrays.copyOf(record, length);
    this.tagsAt = tagsAt;
    metricEnd = metricEnd(record);
    typeAt = typeAt(metricEnd);
    valueAt = valueAt(record, typeAt);
  }

  /** Where a string ends that begins there with its length. */
  static int string(byte[] record, int at) {
    return at + Short.BYTES + ((record[at] & 0xff) << 8 | record[at + 1] & 0xff);
  }

  static int metricEnd(byte[] record) {
    return string(record, 0);
  }

  static int typeAt(int metricEnd) {
    return metricEnd + Integer.BYTES + Long.BYTES;
  }

  static int valueAt(byte[] record, int typeAt) {
    return string(record, typeAt);
  }

  static long number(byte[] record, int at, int bytes) {
    long number = 0;
    for (int i = at; i < at + bytes; i++) {
      number = number << 8 | record[i] & 0xff;
    }
    return number;
  }

  /** Whether a record is of this series. */
  boolean has(byte[] record, int length, int recordTagsAt) {
    int shift = recordTagsAt - tagsAt;
    return length - recordTagsAt == first.length - tagsAt
        && Arrays.equals(record, 0, Math.min(length, metricEnd), first, 0, metricEnd)
        && Arrays.equals(
            record, typeAt, Math.min(length, valueAt), first, typeAt, valueAt)
        && Arrays.equals(record, tagsAt + shift, length, first, tagsAt, first.length);
  }

  /** Bytes of heap of the series itself: names and values of tags are an object or two each. */
  int bytes() {
    int words = 2 * (int) number(first, tagsAt, Integer.BYTES);
    return first.length + words * WORD_BYTES;
  }

  /** Adds the point that is loaded; bytes of heap that it takes. */
  long add(PointFile.Reader file, int recordTagsAt, long index, Release release) {
    byte[] record = file.bytes();
    int ttlS = (int) number(record, metricEnd, Integer.BYTES);
    long time = number(record, metricEnd + Integer.BYTES, Long.BYTES);
    byte[] value = Arrays.copyOfRange(record, valueAt, recordTagsAt);
    if (!points.isEmpty()) {
      Point last = points.get(points.size() - 1);
      inOrder &= last.time() < time;
    }
    Point point = new Point(index, time, file.takenAt(), ttlS, value, release);
    points.add(point);
    return Room.bytes(point);
  }

  /** Of the first record, ms since 1970. */
  long time() {
    return number(first, metricEnd + Integer.BYTES, Long.BYTES);
  }

  Series series() throws IOException {
    KDataInput metric = KDataInput.createInput(first);
    String name = metric.readUTF();
    metric.skipBytes(Integer.BYTES + Long.BYTES);
    String type = metric.readUTF();
    metric.skipBytes(tagsAt - valueAt);
    int count = metric.readInt();
    ImmutableSortedMap.Builder<String, String> tags = ImmutableSortedMap.naturalOrder();
    for (int i = 0; i < count; i++) {
      tags.put(metric.readUTF(), metric.readUTF());
    }
    return new Series(name, tags.build(), type);
  }

  /**
   * The points, of each time the one that came last. The first of them carries what the series takes
   * beside them.
   *
   * @param replaced gets the indexes of the others
   */
  List<Point> points(List<Long> replaced) {
    if (!inOrder) {
      keepLast(replaced);
    }
    if (bytes() > USUAL_BYTES) {
      points.set(0, points.get(0).carrying(bytes()));
    }
    return points;
  }

  private void keepLast(List<Long> replaced) {
    points.sort(Comparator.comparingLong(Point::time).thenComparingLong(Point::index));
    Map<Long, Point> last = new HashMap<>();
    for (Point point : points) {
      Point before = last.put(point.time(), point);
      if (before != null) {
        replaced.add(before.index());
      }
    }
    points.removeIf(point -> last.get(point.time()) != point);
  }
}
