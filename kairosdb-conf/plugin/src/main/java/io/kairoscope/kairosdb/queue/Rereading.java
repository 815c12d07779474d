package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;

/**
 * What is read from the file once more: the keys of points, but for those that were given up since,
 * as somebody deleted them. For the thread of the deliveries; what is given up is told by any.
 */
final class Rereading implements KeptPoints.Source {
  private final PointFile file;
  private final PointFile.Reader reader;
  private final PointCodec codec;
  // Given up lately: the file still has these points.
  private final List<Forgotten> forgotten = new ArrayList<>();

  /** What was given up of a metric, of points before an index. */
  private record Forgotten(int metric, CoalescingQueue.Covered covered, long before) {
    boolean covers(PointFile.Reader loaded, int tagsAt, long key, long index) throws IOException {
      return index < before
          && RecordBuffer.metricOf(key) == metric
          && covered.covers(loaded, tagsAt);
    }
  }

  Rereading(PointFile file, PointFile.Reader reader, PointCodec codec) {
    this.file = file;
    this.reader = reader;
    this.codec = codec;
  }

  /** All that the file has of a metric by now is given up, as far as it is covered. */
  synchronized void forget(String metric, CoalescingQueue.Covered covered) throws IOException {
    forgotten.add(new Forgotten(RecordBuffer.metricKey(metric), covered, file.head()));
  }

  private synchronized List<Forgotten> forgotten() {
    return List.copyOf(forgotten);
  }

  /**
   * Drops those of which nothing is read any more, as each is compared with all that is.
   *
   * @param from before it nothing is but what is parked, or was and is released
   * @param mayBeParked of a metric, by its hash
   */
  synchronized void dropForgotten(long from, IntPredicate mayBeParked) {
    long tail = file.tail();
    forgotten.removeIf(
        one -> one.before <= tail || one.before <= from && !mayBeParked.test(one.metric));
  }

  /** Of the series of the record that is loaded. */
  long key(int tagsAt) {
    byte[] record = reader.bytes();
    int metricEnd = SeriesRecords.metricEnd(record);
    int typeAt = SeriesRecords.typeAt(metricEnd);
    int typeBytes = SeriesRecords.valueAt(record, typeAt) - typeAt;
    return RecordBuffer.key(record, reader.length(), metricEnd, typeAt, typeBytes, tagsAt);
  }

  @Override
  public Entries entries(long from, long to) throws IOException {
    Entries entries = new Entries();
    List<Forgotten> known = forgotten();
    long takenAt = -1;
    for (long index = from; index < file.head(); index++) {
      int tagsAt = reader.load(index) ? codec.tagsAt(reader) : 0;
      // Those of one write time stay together, or a value would come back that another replaced.
      if (index >= to && reader.takenAt() != takenAt) {
        break;
      }
      takenAt = reader.takenAt();
      long key = tagsAt > 0 ? key(tagsAt) : 0;
      if (tagsAt > 0 && !isForgotten(known, key, tagsAt, index)) {
        entries.add(key, index);
      }
    }
    return entries;
  }

  @Override
  public Entries entries(Positions positions) throws IOException {
    return entries(positions, null);
  }

  /**
   * The same by positions, of which none replaces another of the same write time: that was seen to
   * when they were released first.
   *
   * @param gone gets those that need not be stored any more; null if they are
   */
  Entries entries(Positions positions, List<Long> gone) throws IOException {
    Entries entries = new Entries();
    List<Forgotten> known = forgotten();
    for (long at = positions.next(file.tail()); at >= 0; at = positions.next(at + 1)) {
      boolean whole = reader.load(at);
      int tagsAt = whole ? codec.tagsAt(reader) : 0;
      long key = tagsAt > 0 ? key(tagsAt) : 0;
      if (tagsAt > 0 && !isForgotten(known, key, tagsAt, at)) {
        entries.add(key, at);
      } else if (gone != null) {
        if (tagsAt == 0) {
          codec.giveUp(reader, at, whole);
        }
        gone.add(at);
      }
    }
    return entries;
  }

  /** Whether the record that is loaded was given up. */
  synchronized boolean isForgotten(long key, int tagsAt, long index) throws IOException {
    return isForgotten(forgotten, key, tagsAt, index);
  }

  private boolean isForgotten(List<Forgotten> known, long key, int tagsAt, long index)
      throws IOException {
    for (int i = 0; i < known.size(); i++) {
      if (known.get(i).covers(reader, tagsAt, key, index)) {
        return true;
      }
    }
    return false;
  }
}
