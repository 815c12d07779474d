package io.kairoscope.kairosdb.queue;

import java.util.BitSet;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.LongConsumer;

/** Positions in the file, a bit each in pages, so that what is taken out leaves no room behind. */
final class Positions {
  private static final int PAGE = 1 << 16;
  // Of heap: its bits, and the objects.
  private static final int PAGE_BYTES = PAGE / Byte.SIZE + 128;

  private final TreeMap<Long, BitSet> pages = new TreeMap<>();
  private long count;

  void add(long index) {
    BitSet page = pages.computeIfAbsent(index / PAGE, none -> new BitSet());
    int bit = (int) (index % PAGE);
    if (!page.get(bit)) {
      page.set(bit);
      count++;
    }
  }

  void remove(long index) {
    BitSet page = pages.get(index / PAGE);
    int bit = (int) (index % PAGE);
    if (page != null && page.get(bit)) {
      page.clear(bit);
      count--;
      if (page.isEmpty()) {
        pages.remove(index / PAGE);
      }
    }
  }

  void removeBefore(long end) {
    for (long at = next(0); at >= 0 && at < end; at = next(at + 1)) {
      remove(at);
    }
  }

  boolean contains(long index) {
    BitSet page = pages.get(index / PAGE);
    return page != null && page.get((int) (index % PAGE));
  }

  boolean isEmpty() {
    return count == 0;
  }

  long count() {
    return count;
  }

  /** Bytes of heap, from above. */
  long bytes() {
    return (long) PAGE_BYTES * pages.size();
  }

  /** The first one from a position on; -1 if there is none. */
  long next(long from) {
    for (Map.Entry<Long, BitSet> one : pages.tailMap(from / PAGE, true).entrySet()) {
      long start = one.getKey() * PAGE;
      int bit = one.getValue().nextSetBit((int) Math.max(0, from - start));
      if (bit >= 0) {
        return start + bit;
      }
    }
    return -1;
  }

  /** The last one; -1 if there is none. */
  long last() {
    return pages.isEmpty()
        ? -1
        : pages.lastKey() * PAGE + pages.lastEntry().getValue().length() - 1;
  }

  /** The first ones from a position on, so many at most. */
  Positions some(long from, long most) {
    Positions some = new Positions();
    for (long at = next(from); at >= 0 && some.count < most; at = next(at + 1)) {
      some.add(at);
    }
    return some;
  }

  /** Told of each, in order. */
  void forEach(LongConsumer each) {
    for (Map.Entry<Long, BitSet> one : pages.entrySet()) {
      BitSet page = one.getValue();
      for (int bit = page.nextSetBit(0); bit >= 0; bit = page.nextSetBit(bit + 1)) {
        each.accept(one.getKey() * PAGE + bit);
      }
    }
  }
}
