package io.kairoscope.kairosdb.queue;

import java.util.BitSet;

/**
 * Points that the store did not take while it took others, as those whose range has lost its quorum:
 * they wait in the file. A part of them is released now and then, to see whether the store takes it
 * now; one part at a time. While any of it is taken the next follows at once, in the order of the
 * file and from its beginning again, and the larger the more is taken. Else the next one is somewhere
 * else: the range of millions may be gone for good, and that of those behind them be well again. By
 * turns that is a place of the file, where many are met soon, and what comes after the part that was
 * tried in that way before, as few may be anywhere.
 *
 * <p>Memory has next to nothing of them: behind the first point that is on its way, or waits to be
 * released, they are those that are not settled. There may be as many as the disk has room for.
 *
 * <p>All of it under the lock of the queue.
 */
final class Parked {
  // Of a part. The least has points of many series, as sensors take turns; the most is sorted by
  // series at once.
  private static final long LEAST = 1_000;
  private static final long MOST = 1 << 17;
  // It is read by the thread that delivers all others: it must not be spread over the whole file.
  private static final long SPAN = 1 << 20;
  // Of a part, so much must be taken for the next to be larger.
  private static final int SHARE = 64;
  // From one that is not taken to the next: as between two attempts of what is not parked.
  private static final long PAUSE_MS = 10_000;
  // Metrics are known by so many bits of their hash.
  private static final int METRICS = 1 << 16;

  private final Acknowledged settled;
  // All before is settled, parked or released again.
  private long passed;
  // Those that are not before.
  private final Positions ahead = new Positions();
  private final BitSet metrics = new BitSet();
  private long count;
  // None is behind it.
  private long last;
  // What is released again, as long as it is not parked again.
  private Positions out = new Positions();
  private long released;
  private Run run;
  // It goes through what there was when it began: or it would stay with what comes.
  private long cursor;
  private long end;
  private long size = LEAST;
  private boolean goesOn;
  private long dueMs = Long.MIN_VALUE;
  // Whether what is tried now is a look, and one of those that go through all in their order.
  private boolean looking;
  private boolean inOrder;
  // How many places of the file were looked at in this round.
  private int looks;
  // Where the next look in order begins.
  private long through;
  // Whether the beginning is to be tried without waiting for the next look.
  private boolean asked;

  Parked(Acknowledged settled) {
    this.settled = settled;
    passed = settled.low();
  }

  /** A point of a metric, by its hash, that is not settled and was on its way, was not taken. */
  void add(int metric, long index) {
    if (isOver()) {
      metrics.clear();
      last = 0;
    }
    // What may fail for want of memory first: whoever gives it back again does so as if anew.
    metrics.set(Math.floorMod(metric, METRICS));
    if (index >= passed) {
      ahead.add(index);
    }
    out.remove(index);
    count++;
    last = Math.max(last, index);
  }

  private boolean isOver() {
    return count == 0 && run == null;
  }

  boolean contains(long index) {
    return index < passed
        ? settled.nextOpen(index) == index && !out.contains(index)
        : ahead.contains(index);
  }

  /** How many wait. */
  long count() {
    return count;
  }

  /** Bytes of heap. */
  long bytes() {
    return ahead.bytes() + out.bytes();
  }

  /** Whether any may be of a metric, by its hash; those that are released included. */
  boolean mayHave(int metric) {
    return !isOver() && metrics.get(Math.floorMod(metric, METRICS));
  }

  /**
   * All before is settled, parked or released again.
   *
   * @param end of what was ever released
   */
  long passed(long end) {
    passed = Math.max(passed, settled.low());
    while (passed < end) {
      // Millions may be settled behind one that was on its way: they are looked through once.
      long open = settled.nextOpen(passed);
      if (open > passed) {
        passed = Math.min(open, end);
      } else if (ahead.contains(passed)) {
        ahead.remove(passed);
        passed++;
      } else {
        break;
      }
    }
    return passed;
  }

  /** What is released; null for nothing. */
  Run run() {
    return run;
  }

  /** What is released next, and waits until it is; null for nothing, or if its time has not come. */
  Positions next(long nowMs) {
    boolean due = nowMs >= dueMs;
    if (count == 0 || !goesOn && !due && !asked) {
      return null;
    }
    if (!goesOn) {
      // The look first: or beside a node that comes and goes the oldest would be the only ones.
      looking = due;
      end = last;
      if (due) {
        inOrder = !inOrder;
        cursor = inOrder ? through : look();
      } else {
        cursor = 0;
        asked = false;
      }
    }
    // A part that cannot be read is never over, and is not gone on from.
    goesOn = false;
    long first = waiting(cursor);
    if (first < 0) {
      // Or looks would go where nothing is any more.
      last = Math.min(last, cursor - 1);
    }
    if (first < 0 || first > end) {
      first = waiting(0);
      end = last;
    }
    Positions next = new Positions();
    long at = first;
    // At least one, wherever the next is.
    while (at >= 0 && next.count() < size && at - first < SPAN) {
      next.add(at);
      at = waiting(at + 1);
    }
    if (looking && inOrder) {
      through = next.last() + 1;
    }
    return next;
  }

  /**
   * The next place to look at: the beginning, the middle, the quarters, and so on (van der Corput's
   * sequence), until no part is left out. So what is a tenth of the file is met within some twenty
   * of these looks, however long the file is.
   */
  private long look() {
    long low = settled.low();
    long length = end - low;
    long place = low + (length * Integer.toUnsignedLong(Integer.reverse(looks)) >>> Integer.SIZE);
    looks = looks * LEAST < 2 * length ? looks + 1 : 0;
    return place;
  }

  /** The first that waits from an index on; -1 for none. */
  private long waiting(long from) {
    for (long at = settled.nextOpen(from); at < passed; at = settled.nextOpen(at + 1)) {
      if (!out.contains(at)) {
        return at;
      }
    }
    return ahead.next(Math.max(from, passed));
  }

  /** These are released, and wait no more. */
  void release(Positions positions, Run run) {
    positions.forEach(ahead::remove);
    positions.forEach(out::add);
    cursor = positions.last() + 1;
    released = positions.count();
    count -= released;
    this.run = run;
  }

  /** What was released is settled, or waits here again. */
  void over(long nowMs) {
    // What is out still was not parked again.
    long taken = out.count();
    goesOn = taken > 0;
    if (looking && !goesOn) {
      // From its end: one that times out takes as long.
      dueMs = nowMs + PAUSE_MS;
    }
    size = SHARE * taken >= released ? Math.min(MOST, 2 * size) : Math.max(LEAST, size / 2);
    out = new Positions();
    run = null;
  }

  /**
   * Something has changed, so that the store may take any of them now: they are tried without a
   * pause, and from the beginning, as the oldest hold the file.
   */
  void tryNow() {
    asked = true;
  }
}
