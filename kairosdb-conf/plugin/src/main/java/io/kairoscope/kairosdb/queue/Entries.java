package io.kairoscope.kairosdb.queue;

import java.util.ArrayList;
import java.util.List;

/**
 * Points that wait, each by the key of its series and its index in the file: 16 bytes in arrays,
 * where an object each would cost ten times as much, and most of all the collector's time.
 */
final class Entries {
  private static final int CHUNK = 1 << 12;
  private static final long GONE = -1;

  private final List<long[]> chunks = new ArrayList<>();
  private int count;
  private int gone;

  void add(long key, long index) {
    int at = count % CHUNK;
    if (at == 0) {
      chunks.add(new long[2 * CHUNK]);
    }
    long[] chunk = chunks.get(chunks.size() - 1);
    chunk[2 * at] = key;
    chunk[2 * at + 1] = index;
    count++;
  }

  /** Those that were not taken out. */
  int size() {
    return count - gone;
  }

  /** Told of each entry that was not taken out. */
  interface Each {
    void entry(long key, long index);
  }

  void forEach(Each each) {
    for (int i = 0; i < count; i++) {
      long[] chunk = chunks.get(i / CHUNK);
      long index = chunk[2 * (i % CHUNK) + 1];
      if (index != GONE) {
        each.entry(chunk[2 * (i % CHUNK)], index);
      }
    }
  }

  /** What may be scanned without the lock that guards the entries; some may be taken out since. */
  View view() {
    return new View(chunks.toArray(new long[0][]), count);
  }

  /** Takes out those of a metric, which the view saw. */
  void takeOut(View view, int metric, Entries into) {
    for (int i = view.next(metric, 0); i < view.count; i = view.next(metric, i + 1)) {
      long[] chunk = view.chunks[i / CHUNK];
      int at = 2 * (i % CHUNK);
      if (chunk[at + 1] != GONE) {
        into.add(chunk[at], chunk[at + 1]);
        chunk[at + 1] = GONE;
        gone++;
      }
    }
  }

  /** The entries that there were at a moment. */
  static final class View {
    private final long[][] chunks;
    private final int count;

    private View(long[][] chunks, int count) {
      this.chunks = chunks;
      this.count = count;
    }

    boolean hasAny(int metric) {
      return next(metric, 0) < count;
    }

    private int next(int metric, int from) {
      int i = from;
      while (i < count
          && RecordBuffer.metricOf(chunks[i / CHUNK][2 * (i % CHUNK)]) != metric) {
        i++;
      }
      return i;
    }
  }
}
