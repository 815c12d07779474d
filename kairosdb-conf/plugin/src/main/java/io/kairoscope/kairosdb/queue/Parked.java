package io.kairoscope.kairosdb.queue;

import java.util.BitSet;

/**
 * Points that the store did not take while it took others, as those whose range has lost its quorum:
 * of them there is only their position in the file. A part of them is released now and then, in the
 * order of the file and from its beginning again, to see whether the store takes it now; one part at
 * a time, and the larger the more of it is taken.
 *
 * <p>All of it under the lock of the queue.
 */
final class Parked {
  // Of a part. The least has points of many series, as sensors take turns; the most is sorted by
  // series at once.
  private static final long LEAST = 1_000;
  private static final long MOST = 1 << 17;
  // Of a part, so much must be taken for the next to follow at once, and to be larger.
  private static final int SHARE = 64;
  // Else: as long as between two attempts of what is not parked.
  private static final long PAUSE_MS = 10_000;
  // Metrics are known by so many bits of their hash.
  private static final int METRICS = 1 << 16;

  private final Positions waiting = new Positions();
  private final BitSet metrics = new BitSet();
  // What is released, as long as it is neither settled nor back.
  private Positions out = new Positions();
  private Run run;
  private long back;
  // It goes through what there was when it began at the beginning: or it would stay with what comes.
  private long cursor;
  private long end;
  private long size = LEAST;
  private long dueMs = Long.MIN_VALUE;
  // Points that are tried whatever becomes of those before.
  private long tried;

  /** A point of a metric that was not taken. */
  void add(int metric, long index) {
    if (isOver()) {
      metrics.clear();
    }
    metrics.set(Math.floorMod(metric, METRICS));
    waiting.add(index);
    back += out.contains(index) ? 1 : 0;
  }

  private boolean isOver() {
    return waiting.isEmpty() && run == null;
  }

  boolean contains(long index) {
    return waiting.contains(index);
  }

  /** How many wait. */
  long count() {
    return waiting.count();
  }

  /** Bytes of heap. */
  long bytes() {
    return waiting.bytes();
  }

  /** Whether any may be of a metric, by its hash; those that are released included. */
  boolean mayHave(int metric) {
    return !isOver() && metrics.get(Math.floorMod(metric, METRICS));
  }

  /** What is released; null for nothing. */
  Run run() {
    return run;
  }

  /** What is released next; null if there is nothing, or its time has not come. They wait until then. */
  Positions next(long nowMs) {
    if (waiting.isEmpty() || nowMs < dueMs) {
      return null;
    }
    long first = waiting.next(cursor);
    if (first < 0 || first > end) {
      cursor = 0;
      end = waiting.last();
    }
    return waiting.some(cursor, size);
  }

  /** These are released, and wait no more. */
  void release(Positions positions, Run released) {
    positions.forEach(
        index -> {
          waiting.remove(index);
          cursor = index + 1;
        });
    tried -= positions.count();
    out = positions;
    run = released;
    back = 0;
  }

  /** What was released is settled, or waits here again. */
  void over(long nowMs) {
    boolean goOn = tried > 0 || SHARE * (out.count() - back) >= out.count();
    size = goOn ? Math.min(MOST, 2 * size) : Math.max(LEAST, size / 2);
    dueMs = goOn ? nowMs : nowMs + PAUSE_MS;
    out = new Positions();
    run = null;
  }

  /** Something has changed, so that the store may take any of them now: all are tried. */
  void tryAll() {
    dueMs = Long.MIN_VALUE;
    tried = waiting.count();
    end = waiting.last();
  }
}
