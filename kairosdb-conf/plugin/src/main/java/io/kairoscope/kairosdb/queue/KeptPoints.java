package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.LongPredicate;

/**
 * What the store acknowledged and the file keeps for a while all the same.
 *
 * <p>A storage node that is killed forgets what its commit log had not yet brought to the disk: up to
 * 10 s of it with the defaults of Cassandra and ScyllaDB. With consistency ONE that may have been
 * the only one that had a point; two that are killed together can do the same to QUORUM. So what was
 * acknowledged lately is written again when a node goes or comes: the same write times, so nothing
 * changes where it is already.
 *
 * <p>Lately acknowledged is what lies behind the place up to which all was settled or parked a while
 * ago, and what was parked and has been settled since. What the store does not take a second time is
 * owed to it: that is written again until it does.
 */
final class KeptPoints {
  private static final long NOTED_EVERY_MS = 500;
  private static final int RUN_POINTS = 1 << 20;
  // Of what is owed, at once; and how long after some of it was not taken.
  private static final int OWED_POINTS = 1 << 14;
  private static final long OWED_PAUSE_MS = 10_000;
  private static final Positions NONE = new Positions();

  /** Reads keys of points from the file. */
  interface Source {
    Entries entries(long from, long to) throws IOException;

    Entries entries(Positions positions) throws IOException;
  }

  /** Until where all was settled, and had been written again if asked for, at a time. */
  private record Noted(long atMs, long safe) {}

  /** What was parked and has been settled, or was owed and has been written, at a time. */
  private record Late(long atMs, Positions positions) {}

  private final long keepMs;
  private final Deque<Noted> noted = new ArrayDeque<>();
  private volatile boolean asked;
  // While a storage node is silent it may be gone, of which nobody is told for a while: the driver
  // takes up to 42 s (heartbeatIntervalSeconds 30, readTimeoutMillis 12,000; PoolingOptions and
  // SocketOptions of driver 3). So no time passes meanwhile.
  private boolean held;
  private long heldMs;
  private long lastMs;
  // Before this nothing is of lately.
  private long reached = -1;
  // What is written again now: up to `end`, in parts; and after that of what is owed.
  private boolean active;
  private long from;
  private long partEnd;
  private long end;
  private Run run;
  private Positions ofRun = NONE;
  // What was parked and is released again: some of it is settled, the rest not yet.
  private Positions released = NONE;
  private final Deque<Late> late = new ArrayDeque<>();
  // Told of by any thread.
  private final Positions owed = new Positions();
  private long owedDueMs;
  private long owedCursor;

  KeptPoints(long keepMs) {
    this.keepMs = keepMs;
  }

  void ask() {
    asked = true;
  }

  /** The store did not take it a second time. */
  void owe(long index, long nowMs) {
    synchronized (owed) {
      owed.add(index);
      owedDueMs = nowMs + OWED_PAUSE_MS;
    }
  }

  /** These were parked, and are on their way again. */
  void released(Positions positions) {
    released = positions;
  }

  /** Of what was parked and released each is settled by now, or parked again. */
  void over(LongPredicate isSettled, long clockMs) {
    keep(settled(isSettled), clockMs);
    released = NONE;
  }

  private void keep(Positions positions, long clockMs) {
    if (keepMs > 0 && !positions.isEmpty()) {
      late.addLast(new Late(clockMs - heldMs, positions));
    }
  }

  private Positions settled(LongPredicate isSettled) {
    Positions settled = new Positions();
    released.forEach(
        index -> {
          if (isSettled.test(index)) {
            settled.add(index);
          }
        });
    return settled;
  }

  /**
   * The run to go on with; null if there is nothing to write again, or all is under way.
   *
   * @param settledEnd behind the last that is settled. What was acknowledged last is of series that
   *     were released before older points of others, so it lies between points that still wait;
   *     these are written a little sooner then. Nothing that comes can have their write time, as
   *     something later was released already.
   */
  Run run(long tail, long settledEnd, LongPredicate isSettled, long nowMs, Source source)
      throws IOException {
    if (asked) {
      asked = false;
      // From the beginning, even if half of it was written: it was before this node went.
      active = true;
      from = from(tail);
      end = settledEnd;
      // What is written again is of lately when it is.
      noted.clear();
      run = null;
      Positions settled = settled(isSettled);
      synchronized (owed) {
        ofRun.forEach(owed::add);
        settled.forEach(owed::add);
        late.forEach(one -> one.positions.forEach(owed::add));
        owedDueMs = nowMs;
      }
      ofRun = NONE;
    }
    if (run != null && run.isSettled()) {
      from = active ? partEnd : from;
      keep(ofRun, nowMs);
      ofRun = NONE;
      run = null;
    }
    if (active && run == null) {
      if (from >= end) {
        active = false;
      } else {
        partEnd = Math.min(end, from + RUN_POINTS);
        run = new Run(source.entries(from, partEnd), Release.Kind.AGAIN);
      }
    }
    if (!active && run == null) {
      oweRun(nowMs, source);
    }
    return run == null || run.isEmpty() ? null : run;
  }

  private void oweRun(long nowMs, Source source) throws IOException {
    Positions some;
    synchronized (owed) {
      if (owed.isEmpty() || nowMs < owedDueMs) {
        return;
      }
      // One after the other, as some may be taken sooner than others.
      some = owed.some(owed.next(owedCursor) < 0 ? 0 : owedCursor, OWED_POINTS);
    }
    Run next = new Run(source.entries(some), Release.Kind.AGAIN);
    synchronized (owed) {
      some.forEach(owed::remove);
      owedCursor = some.last() + 1;
    }
    ofRun = some;
    run = next;
  }

  /** Whether what is kept stays although its time comes. */
  void hold(boolean on) {
    held = on;
  }

  /** Whether something is being written again, or will be; or may have to be. */
  boolean isNeeded() {
    return active || asked || held || firstOwed() < Long.MAX_VALUE;
  }

  private long firstOwed() {
    synchronized (owed) {
      return Math.min(first(owed), first(ofRun));
    }
  }

  private static long first(Positions positions) {
    long first = positions.next(0);
    return first < 0 ? Long.MAX_VALUE : first;
  }

  /** Where what is of lately begins. */
  long from(long tail) {
    return Math.max(tail, reached);
  }

  /**
   * Where the file's checkpoint may be now; what is asked for and not yet begun stays.
   *
   * @param passed all before is settled or parked, or was
   */
  long checkpoint(long passed, long clockMs) {
    heldMs += held ? clockMs - lastMs : 0;
    lastMs = clockMs;
    if (asked) {
      return -1;
    }
    long nowMs = clockMs - heldMs;
    long safe = active ? Math.min(passed, from) : passed;
    if (noted.isEmpty() || nowMs - noted.getLast().atMs >= NOTED_EVERY_MS) {
      noted.addLast(new Noted(nowMs, safe));
    }
    while (!noted.isEmpty() && noted.getFirst().atMs <= nowMs - keepMs) {
      reached = Math.max(reached, Math.min(safe, noted.pollFirst().safe));
    }
    while (!late.isEmpty() && late.getFirst().atMs <= nowMs - keepMs) {
      late.removeFirst();
    }
    long first = keepMs == 0 ? Long.MAX_VALUE : first(released);
    first = Math.min(first, firstOwed());
    for (Late one : late) {
      first = Math.min(first, first(one.positions));
    }
    return Math.min(first, keepMs == 0 ? safe : reached);
  }

  /**
   * Gives up what is only kept; where the file's checkpoint may be then.
   *
   * @param low the file keeps all from here on for a point that is not settled, which may have been
   *     parked for hours: to give up what is behind it would free nothing
   */
  long giveUp(long low) {
    if (active && from < low) {
      from = low;
      active = from < end;
      run = null;
    }
    late.forEach(one -> one.positions.removeBefore(low));
    late.removeIf(one -> one.positions.isEmpty());
    synchronized (owed) {
      if (first(ofRun) < low) {
        // Its records may be gone before they are handed out.
        ofRun.forEach(owed::add);
        ofRun = NONE;
        run = null;
      }
      owed.removeBefore(low);
    }
    return low;
  }
}
