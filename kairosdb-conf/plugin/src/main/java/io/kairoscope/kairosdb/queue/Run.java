package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongConsumer;
import java.util.function.LongPredicate;

/**
 * Points that are released together, in the order of their series: sorted here, once, instead of
 * being looked up by series one by one when they come. What is read of the file are only those that
 * are handed out next.
 */
final class Run {
  // Of a position in the run, at least; the upper bits of what is sorted are of the key.
  private static final int POSITION_BITS = 24;
  // Points that are fetched from the file at once: with their records they fit into the first
  // caches.
  private static final int NEAR = 128;

  private final long[] keys;
  private final long[] indexes;
  // Upper bits of the mixed key, and the position.
  private long[] order;
  private final long position;
  private final Release release;
  private int at;
  private final long[] next = new long[NEAR];

  Run(Entries entries, Release.Kind kind) {
    int count = entries.size();
    position = Math.max(1L << POSITION_BITS, Long.highestOneBit(count) << 1) - 1;
    keys = new long[count];
    indexes = new long[count];
    order = new long[count];
    int[] added = {0};
    entries.forEach(
        (key, index) -> {
          keys[added[0]] = key;
          indexes[added[0]] = index;
          order[added[0]] = mixed(key) & ~position | added[0];
          added[0]++;
        });
    Arrays.sort(order);
    release = new Release(count, kind);
  }

  /** A key's bits, each of which depends on all: the upper ones are the metric's alone before. */
  static long mixed(long key) {
    long mixed = (key ^ key >>> 32) * 0x9e3779b97f4a7c15L;
    return (mixed ^ mixed >>> 29) * 0xbf58476d1ce4e5b9L;
  }

  /** All were handed out. */
  boolean isEmpty() {
    return at == order.length;
  }

  /** All were handed out: only what {@link #forEach} needs is kept. */
  void forgetOrder() {
    order = new long[0];
    at = 0;
  }

  /** How many points are known of it. */
  int size() {
    return keys.length;
  }

  Release release() {
    return release;
  }

  /** All were handed out and are settled. */
  boolean isSettled() {
    return isEmpty() && release.done();
  }

  /** Told of each point of the wanted keys, handed out or not. */
  void forEach(LongPredicate wanted, Entries.Each each) {
    for (int i = 0; i < keys.length; i++) {
      if (wanted.test(keys[i])) {
        each.entry(keys[i], indexes[i]);
      }
    }
  }

  /**
   * Hands out series, whole as long as they are not too large for that.
   *
   * @param quota after which to stop; the last series may exceed its points, and the last points of
   *     one write time its bytes
   * @param into gets the series
   * @param settled is told of points that need not be stored: a later one of the same time replaces
   *     them, or their record is torn
   */
  void next(
      Quota quota, PointFile.Reader file, PointCodec codec, List<Group> into, LongConsumer settled)
      throws IOException {
    int end = at;
    // As a whole, so that it can be called again if it fails half way.
    List<Group> groups = new ArrayList<>();
    List<Long> gone = new ArrayList<>();
    int expected = at;
    while (end < order.length && quota.left()) {
      if (end >= expected) {
        expected = expect(end, file);
      }
      end = series(end, quota, file, codec, groups, gone);
    }
    into.addAll(groups);
    at = end;
    for (long index : gone) {
      release.settled(1);
      settled.accept(index);
    }
  }

  /** Has what comes next near. Where that ends. */
  private int expect(int from, PointFile.Reader file) throws IOException {
    int count = Math.min(next.length, order.length - from);
    for (int i = 0; i < count; i++) {
      next[i] = indexes[(int) (order[from + i] & position)];
    }
    file.expect(next, count);
    return from + count;
  }

  /**
   * All that have the same upper bits: one series, or very seldom several. Where these end, or where
   * there is no quota for more: not between points of one write time, of which the store would keep
   * the larger and not the later.
   */
  private int series(
      int from,
      Quota quota,
      PointFile.Reader file,
      PointCodec codec,
      List<Group> groups,
      List<Long> gone)
      throws IOException {
    long upper = order[from] & ~position;
    List<SeriesRecords> found = new ArrayList<>(1);
    long takenAt = 0;
    int end = from;
    for (; end < order.length && (order[end] & ~position) == upper; end++) {
      long index = indexes[(int) (order[end] & position)];
      boolean whole = file.load(index);
      if (whole && end > from && !quota.hasBytes() && file.takenAt() != takenAt) {
        break;
      }
      int tagsAt = whole ? codec.tagsAt(file) : 0;
      if (tagsAt == 0) {
        codec.giveUp(file, index, whole);
        gone.add(index);
        quota.take(1, 0);
        continue;
      }
      takenAt = file.takenAt();
      SeriesRecords records = null;
      for (SeriesRecords one : found) {
        if (one.has(file.bytes(), file.length(), tagsAt)) {
          records = one;
          break;
        }
      }
      if (records == null) {
        records = new SeriesRecords(file.bytes(), file.length(), tagsAt);
        found.add(records);
        quota.take(0, records.bytes());
      }
      quota.take(1, records.add(file, tagsAt, index, release));
    }
    for (SeriesRecords records : found) {
      groups.add(new Group(records.series(), records.points(gone)));
    }
    return end;
  }
}
