package io.kairoscope.kairosdb.queue;

import java.util.BitSet;

/**
 * Which indexes are acknowledged, in whatever order that happens, and up to where all are.
 *
 * <p>One bit for each index above the lowest outstanding one: points come densely, so this is
 * smaller than any set of intervals once releases are out of order.
 */
final class Acknowledged {
  // Bits are moved down only when it is worth it, so that each is moved a few times: there are very
  // many above a point that the store did not take for hours.
  private static final int MOVE_AT = 1 << 16;
  private static final int MOVED_SHARE = 4;
  private static final int GROWN_BY = 1 << 10;
  private static final int GROWN_SHARE = 8;

  private BitSet bits = new BitSet();
  private long base;
  private long low;

  Acknowledged(long first) {
    base = first;
    low = first;
  }

  void add(long index) {
    int at = Math.toIntExact(index - base);
    if (at >= bits.size()) {
      // By itself it would double, and take twice the heap that there is for it.
      BitSet larger = new BitSet(at + Math.max(GROWN_BY, at / GROWN_SHARE));
      larger.or(bits);
      bits = larger;
    }
    bits.set(at);
    if (index != low) {
      return;
    }
    int passed = bits.nextClearBit((int) (low - base));
    low = base + passed;
    if (passed >= MOVE_AT && passed >= bits.length() / MOVED_SHARE) {
      bits = bits.get(passed, Math.max(passed, bits.length()));
      base = low;
    }
  }

  boolean contains(long index) {
    return index < low || bits.get((int) (index - base));
  }

  /** The first from an index on that is not acknowledged; at the lowest, the lowest. */
  long nextOpen(long from) {
    return from <= low ? low : base + bits.nextClearBit((int) (from - base));
  }

  /** Bytes of heap. */
  long bytes() {
    return bits.size() / Byte.SIZE;
  }

  /** None from this one on is acknowledged; the one before it is, if any above `low` are. */
  long end() {
    return Math.max(low, base + bits.length());
  }

  /** All indexes below this one are acknowledged, and this one is not. */
  long low() {
    return low;
  }
}
