package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.LongSupplier;

/**
 * Points wait here by series, so that the store gets many of one partition at a time, which costs
 * it little more than a single one.
 *
 * <p>A point is in the file before {@link #put} returns. In memory, a series is released whole,
 * once in each window, or earlier when memory runs short. Each series has its moment of the window,
 * one of ten or more: if they all waited from their first point on, sensors that began to send
 * together would be released together, too, in one burst for each window.
 *
 * <p>What memory has no room for is only in the file, and is read back in order. The file's
 * checkpoint moves to the lowest point that is not acknowledged, whatever the order of releases.
 *
 * <p>Of the file, memory holds everything that is not acknowledged from the checkpoint to {@code
 * next}, and nothing from there on: while something is left to be read back, new points go to the
 * file only, or they would overtake it.
 *
 * <p>{@link #put} and {@link #done} may be called by any thread; {@link #refill}, {@link #take} and
 * {@link #checkpoint} by one, that of the deliveries.
 */
final class CoalescingQueue {
  /** Reads a record of the file; null if it is none that can ever be stored. */
  interface Decoder {
    Sample decode(long index, byte[] bytes);
  }

  // A record, an array, its places in a list and among the acknowledged; generous.
  static final int POINT_BYTES = 112;
  // From here on series are released early, before points would have to go to the file only.
  private static final double PRESSED = 0.75;
  // How far the moments are apart at which series are due. With many of them at once batches are
  // full, and the store's threads have a lot to do and then rest, instead of being woken for a few
  // partitions at a time; with ten in a window its load is still even.
  private static final long MOMENTS_APART_MS = 1_000;
  private static final long MOMENTS_IN_WINDOW = 10;
  // A point that is not stored for long must not let the bits above it grow without bound.
  private static final int MAX_BITS = 1 << 30;

  private final PointFile file;
  private final Decoder decoder;
  private final long windowMs;
  private final long maxBytes;
  private final long maxBits;
  private final LongSupplier clockMs;

  private final Map<Series, Waiting> waiting = new HashMap<>();
  private final TreeSet<Waiting> byDue =
      new TreeSet<>(Comparator.comparingLong(Waiting::dueMs).thenComparingLong(Waiting::first));
  private final Acknowledged acknowledged;
  private long next;
  private long bytes;
  private long points;
  private boolean draining;

  /**
   * @param clockMs a clock that is never set back; only differences count
   * @param maxBytes of heap for all points that are not acknowledged
   */
  CoalescingQueue(
      PointFile file, Decoder decoder, long windowMs, long maxBytes, LongSupplier clockMs) {
    this.file = file;
    this.decoder = decoder;
    this.windowMs = windowMs;
    this.maxBytes = maxBytes;
    maxBits = Math.min(maxBytes, MAX_BITS);
    this.clockMs = clockMs;
    next = file.tail();
    acknowledged = new Acknowledged(next);
  }

  /** Takes a point: it is in the file when this returns. */
  synchronized void put(Sample sample, byte[] record, long takenAt) throws IOException {
    long index = file.append(record);
    // Later points wait behind what is left in the file.
    if (index == next) {
      admit(index, sample, takenAt, dueMs(sample.series(), clockMs.getAsLong(), windowMs));
    }
  }

  /** Reads points back from the file while there are any and memory has room; how many. */
  int refill() throws IOException {
    int count = 0;
    while (true) {
      long index;
      synchronized (this) {
        index = next;
        if (index >= file.head()) {
          return count;
        }
      }
      // Without the lock, since nobody else moves `next` now that the file has more than that.
      Sample sample = decoder.decode(index, file.read(index));
      long takenAt = file.appendedAt(index);
      synchronized (this) {
        if (sample == null) {
          next++;
          acknowledged.add(index);
        } else if (!admit(index, sample, takenAt, clockMs.getAsLong())) {
          return count;
        }
      }
      count++;
    }
  }

  /** When a series is due whose oldest point came now: within the window. */
  static long dueMs(Series series, long nowMs, long windowMs) {
    if (windowMs == 0) {
      return nowMs;
    }
    long apartMs = Math.max(1, Math.min(MOMENTS_APART_MS, windowMs / MOMENTS_IN_WINDOW));
    long momentMs = Math.floorMod(series.hashCode(), windowMs / apartMs) * apartMs;
    return nowMs + windowMs - Math.floorMod(nowMs + momentMs, windowMs);
  }

  private boolean admit(long index, Sample sample, long takenAt, long dueMs) {
    Waiting series = waiting.get(sample.series());
    int weight = POINT_BYTES + sample.value().length;
    if (series == null) {
      weight += 0;
    }
    // One point has room in any bound, or it would wait for ever.
    boolean room = bytes == 0 || bytes + weight <= maxBytes;
    if (!room || index - acknowledged.low() >= maxBits) {
      return false;
    }
    if (series == null) {
      series = new Waiting(sample.series(), dueMs, index, new ArrayList<>(4));
      waiting.put(sample.series(), series);
      byDue.add(series);
    }
    series.points.add(
        new Point(index, sample.time(), takenAt, sample.ttlS(), sample.value(), null));
    next = index + 1;
    bytes += weight;
    points++;
    return true;
  }

  /**
   * Releases series, the one that is due first, whole: those that are due, or any while memory is
   * short.
   *
   * @param enough points, after which to stop; the last series may exceed it
   */
  synchronized List<Group> take(int enough) {
    boolean all = draining || bytes >= PRESSED * maxBytes || next < file.head();
    long nowMs = clockMs.getAsLong();
    List<Group> released = new ArrayList<>();
    int count = 0;
    while (count < enough && !byDue.isEmpty() && (all || byDue.first().dueMs <= nowMs)) {
      Waiting next = byDue.pollFirst();
      waiting.remove(next.series);
      released.add(new Group(next.series, next.points));
      count += next.points.size();
    }
    return released;
  }

  /** The store has these points. */
  synchronized void done(Collection<Point> stored) {
    points -= stored.size();
    for (Point point : stored) {
      acknowledged.add(point.index());
      bytes -= POINT_BYTES + point.value().length;
    }
  }

  /** Moves the file's checkpoint to the lowest point that is not acknowledged. */
  void checkpoint() throws IOException {
    long low;
    synchronized (this) {
      low = acknowledged.low();
    }
    // Not under the lock: the file may delete pages for it.
    file.removeBefore(low);
  }

  /** From now on nothing waits for its window. */
  synchronized void drain() {
    draining = true;
  }

  /** What it holds now. */
  synchronized Depth depth() {
    long head = file.head();
    return new Depth(points, bytes, head - next, head - file.tail());
  }

  /** When the oldest point that is not acknowledged was taken, ms since 1970; null for none. */
  Long oldestTakenAt() throws IOException {
    long low;
    synchronized (this) {
      low = acknowledged.low();
    }
    return low < file.head() ? file.appendedAt(low) : null;
  }

  /**
   * How much is there.
   *
   * @param points in memory that are not acknowledged, waiting or released
   * @param bytes of heap that these take
   * @param fileOnly points for which memory had no room
   * @param sinceCheckpoint points that a restart would release again
   */
  record Depth(long points, long bytes, long fileOnly, long sinceCheckpoint) {
    /** Points taken that are not yet acknowledged. */
    long waiting() {
      return points + fileOnly;
    }
  }

  /** A series in memory: when it is due, and its points, by the index of the first of them. */
  private record Waiting(Series series, long dueMs, long first, List<Point> points) {}
}
