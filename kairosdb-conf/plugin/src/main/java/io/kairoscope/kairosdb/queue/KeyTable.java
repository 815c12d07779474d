package io.kairoscope.kairosdb.queue;

import java.util.Arrays;

/**
 * Keys of series, each with a number beside it where that is asked for, in a table with at least
 * twice as many rows. Millions of points are looked up in it at a time: a map would make an object
 * for each of them.
 *
 * <p>The number beside a key is 0 until something else is put there; a key of 0 is an empty row. Two
 * keys are taken for one: 0 and 1.
 */
final class KeyTable {
  // Of the length of a row: without a division, which took as long as all else.
  private final int shift;
  private long[] rows;
  private int mask;
  private int count;

  /**
   * @param numbered whether there is a number beside each key
   * @param most keys that fit in without it being made larger
   */
  KeyTable(boolean numbered, int most) {
    shift = numbered ? 1 : 0;
    make(Math.max(2, 2 * Integer.highestOneBit(2 * most - 1)));
  }

  private void make(int length) {
    rows = new long[length << shift];
    mask = length - 1;
  }

  private int place(long key) {
    int at = (int) (key * 0x9E3779B97F4A7C15L >>> 32) & mask;
    while (rows[at << shift] != 0 && rows[at << shift] != key) {
      at = at + 1 & mask;
    }
    return at << shift;
  }

  private static long named(long key) {
    return key == 0 ? 1 : key;
  }

  int count() {
    return count;
  }

  boolean has(long key) {
    return rows[place(named(key))] != 0;
  }

  /** Where the row of a key is, which is made if there is none. Valid until the next is made. */
  int row(long key) {
    long named = named(key);
    int at = place(named);
    if (rows[at] == 0) {
      if (2 * (count + 1) > mask + 1) {
        grow();
        at = place(named);
      }
      rows[at] = named;
      count++;
    }
    return at;
  }

  /** What is beside a key. */
  long number(int row) {
    return rows[row + 1];
  }

  void number(int row, long number) {
    rows[row + 1] = number;
  }

  private void grow() {
    long[] before = rows;
    make(2 * (mask + 1));
    for (int at = 0; at < before.length; at += 1 << shift) {
      if (before[at] != 0) {
        System.arraycopy(before, at, rows, place(before[at]), 1 << shift);
      }
    }
  }

  void clear() {
    Arrays.fill(rows, 0);
    count = 0;
  }
}
