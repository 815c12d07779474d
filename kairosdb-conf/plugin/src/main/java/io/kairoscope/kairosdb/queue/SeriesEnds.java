package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.Arrays;

/**
 * Series by their keys, and of each the first and the last of its points: enough to find out by the
 * file which of them have some tags. Nothing is kept of each point, as there may be millions.
 */
final class SeriesEnds implements Entries.Each {
  // While the store is away there are thousands of lists of a few points.
  private static final int FEW = 1 << 6;
  // Of this many series records are fetched at once, two each.
  private static final int NEAR = 64;

  // Beside each key its number, from 1 on, in the order in which they were found. That is about the
  // order of their points in the file, which are read in it.
  private final KeyTable numbers = new KeyTable(true, FEW);
  private long[] keys = new long[FEW];
  private long[] first = new long[FEW];
  private long[] last = new long[FEW];

  @Override
  public void entry(long key, long index) {
    int row = numbers.row(key);
    int at = (int) numbers.number(row) - 1;
    if (at < 0) {
      at = numbers.count() - 1;
      numbers.number(row, numbers.count());
      if (at == keys.length) {
        keys = Arrays.copyOf(keys, 2 * at);
        first = Arrays.copyOf(first, 2 * at);
        last = Arrays.copyOf(last, 2 * at);
      }
      keys[at] = key;
      first[at] = index;
      last[at] = index;
    } else if (index > last[at]) {
      last[at] = index;
    } else if (index < first[at]) {
      first[at] = index;
    }
  }

  /** Whether the series of a point is wanted. */
  interface Test {
    boolean of(long index) throws IOException;
  }

  /**
   * Finds the series that are wanted, by either end.
   *
   * @param file is what the test reads
   * @param found gets their keys
   * @return whether there are any
   */
  boolean having(Test test, PointFile.Reader file, KeyTable found) throws IOException {
    boolean any = false;
    long[] near = new long[2 * NEAR];
    for (int from = 0; from < numbers.count(); from += NEAR) {
      int count = Math.min(NEAR, numbers.count() - from);
      System.arraycopy(first, from, near, 0, count);
      System.arraycopy(last, from, near, count, count);
      file.expect(near, 2 * count);
      for (int i = 0; i < count; i++) {
        // Very seldom a key is of two series: then one end of its points is of the one, mostly, and
        // the other of the other. Else it is found after the window, as on another node.
        if (test.of(near[i]) || near[count + i] != near[i] && test.of(near[count + i])) {
          found.row(keys[from + i]);
          any = true;
        }
      }
    }
    return any;
  }
}
