package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * What the store acknowledged and the file keeps for a while all the same.
 *
 * <p>A storage node that is killed forgets what its commit log had not yet brought to the disk: up to
 * 10 s of it with the defaults of Cassandra and ScyllaDB. With consistency ONE that may have been
 * the only one that had a point; two that are killed together can do the same to QUORUM. So what was
 * acknowledged lately is written again when a node goes or comes: the same write times, so nothing
 * changes where it is already.
 */
final class KeptPoints {
  private static final long NOTED_EVERY_MS = 500;
  private static final int RUN_POINTS = 1 << 20;

  /** Reads keys of points from the file. */
  interface Source {
    Entries entries(long from, long to) throws IOException;
  }

  /** Until where all was settled, and had been written again if asked for, at a time. */
  private record Noted(long atMs, long safe) {}

  private final long keepMs;
  private final Deque<Noted> noted = new ArrayDeque<>();
  private volatile boolean asked;
  // While a storage node is silent it may be gone, of which nobody is told for a while: the driver
  // takes up to 42 s (heartbeatIntervalSeconds 30, readTimeoutMillis 12,000; PoolingOptions and
  // SocketOptions of driver 3). So no time passes meanwhile.
  private boolean held;
  private long heldMs;
  private long lastMs;
  // What is written again now: up to `end`, in parts.
  private boolean active;
  private long from;
  private long partEnd;
  private long end;
  private Run run;

  KeptPoints(long keepMs) {
    this.keepMs = keepMs;
  }

  void ask() {
    asked = true;
  }

  /**
   * The run to go on with; null if there is nothing to write again, or all is under way.
   *
   * @param settledEnd behind the last that is settled. What was acknowledged last is of series that
   *     were released before older points of others, so it lies between points that still wait;
   *     these are written a little sooner then. Nothing that comes can have their write time, as
   *     something later was released already.
   */
  Run run(long tail, long settledEnd, Source source) throws IOException {
    if (asked) {
      asked = false;
      // From the beginning, even if half of it was written: it was before this node went.
      active = true;
      from = tail;
      end = settledEnd;
      run = null;
    }
    if (run != null && run.isSettled()) {
      from = partEnd;
      run = null;
    }
    if (active && run == null) {
      if (from >= end) {
        active = false;
        return null;
      }
      partEnd = Math.min(end, from + RUN_POINTS);
      run = new Run(source.entries(from, partEnd), true);
    }
    return run == null || run.isEmpty() ? null : run;
  }

  /** Whether what is kept stays although its time comes. */
  void hold(boolean on) {
    held = on;
  }

  /** Whether something is being written again, or will be; or may have to be. */
  boolean isNeeded() {
    return active || asked || held;
  }

  /** Where the file's checkpoint may be now; what is asked for and not yet begun stays. */
  long checkpoint(long low, long clockMs) {
    heldMs += held ? clockMs - lastMs : 0;
    lastMs = clockMs;
    if (asked) {
      return -1;
    }
    long nowMs = clockMs - heldMs;
    long safe = active ? Math.min(low, from) : low;
    if (noted.isEmpty() || nowMs - noted.getLast().atMs >= NOTED_EVERY_MS) {
      noted.addLast(new Noted(nowMs, safe));
    }
    long reached = -1;
    while (!noted.isEmpty() && noted.getFirst().atMs <= nowMs - keepMs) {
      reached = Math.min(safe, noted.pollFirst().safe);
    }
    return keepMs == 0 ? safe : reached;
  }

  /** Gives up what is only kept; where the file's checkpoint may be then. */
  long giveUp(long low) {
    noted.clear();
    active = false;
    run = null;
    return low;
  }
}
