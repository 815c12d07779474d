package io.kairoscope.kairosdb.queue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** How much has been taken and is not settled, in bytes of heap, roughly. */
final class Room {
  // The point, its array, its place in a list, its share of a statement, on a 64-bit JVM.
  private static final int POINT_BYTES = 128;

  private final long most;
  private final LongSupplier elapsedMs;
  private long taken;
  // When it was filled, or something given back, last.
  private long changedMs;

  /**
   * @param elapsedMs a clock that is never set
   */
  Room(long mostBytes, LongSupplier elapsedMs) {
    most = mostBytes;
    this.elapsedMs = elapsedMs;
  }

  static long bytes(List<Point> points) {
    long bytes = 0;
    for (int i = 0; i < points.size(); i++) {
      bytes += bytes(points.get(i));
    }
    return bytes;
  }

  static long bytes(Point point) {
    return POINT_BYTES + point.value().length + point.carried();
  }

  synchronized void take(long bytes) {
    if (taken < most) {
      changedMs = elapsedMs.getAsLong();
    }
    taken += bytes;
  }

  synchronized void give(long bytes) {
    taken -= bytes;
    changedMs = elapsedMs.getAsLong();
    if (taken < most) {
      notifyAll();
    }
  }

  synchronized boolean left() {
    return taken < most;
  }

  /** Whether half of it is left. */
  synchronized boolean halfLeft() {
    return taken < most / 2;
  }

  /** For how long it has been full with nothing given back; 0 while there is room. */
  synchronized long stuckMs() {
    return taken < most ? 0 : elapsedMs.getAsLong() - changedMs;
  }

  synchronized long taken() {
    return taken;
  }

  synchronized boolean await(long ms) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
    while (taken >= most) {
      long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
      if (left <= 0) {
        return false;
      }
      wait(left);
    }
    return true;
  }
}
