package io.kairoscope.kairosdb.queue;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongPredicate;

/**
 * Points that wait, each by the key of its series and its index in the file: 16 bytes in arrays,
 * where an object each would cost ten times as much, and most of all the collector's time.
 */
final class Entries {
  // While the store is away there are many lists of few points: what is not made use of is counted
  // as if it were, and must not be most of it.
  static final int CHUNK = 1 << 6;
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

  /** Of an entry by its number; of lists that nothing was taken out of. */
  long key(int number) {
    return chunks.get(number / CHUNK)[2 * (number % CHUNK)];
  }

  /** Likewise. */
  long index(int number) {
    return chunks.get(number / CHUNK)[2 * (number % CHUNK) + 1];
  }

  /** What may be scanned without the lock that guards the entries; some may be taken out since. */
  View view() {
    return new View(chunks.toArray(new long[0][]), count);
  }

  /** Takes out those of the wanted keys, which the view saw. */
  void takeOut(View view, LongPredicate wanted, Entries into) {
    for (int i = view.next(wanted, 0); i < view.count; i = view.next(wanted, i + 1)) {
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

    boolean hasAny(LongPredicate wanted) {
      return next(wanted, 0) < count;
    }

    /** Told of those of the wanted keys that were not taken out. */
    void forEach(LongPredicate wanted, Each each) {
      for (int i = next(wanted, 0); i < count; i = next(wanted, i + 1)) {
        long[] chunk = chunks[i / CHUNK];
        long index = chunk[2 * (i % CHUNK) + 1];
        if (index != GONE) {
          each.entry(chunk[2 * (i % CHUNK)], index);
        }
      }
    }

    private int next(LongPredicate wanted, int from) {
      int i = from;
      while (i < count && !wanted.test(chunks[i / CHUNK][2 * (i % CHUNK)])) {
        i++;
      }
      return i;
    }
  }
}
