package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.BitSet;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Half a million series in memory for a part of their points: the bound holds, nothing is forgotten. */
class CoalescingQueueMemoryTest {
  private static final int SERIES = 500_000;
  private static final int POINTS = 3 * SERIES;
  private static final long BOUND = 16L << 20;
  // Of a point that was held as an object, by the plan of commit 67ca42c; a series had 1,024 more.
  private static final long AS_OBJECTS = 121;
  private static final long WINDOW_MS = 10_000;

  private static final int SLOW_POINTS = 2_000;

  private final Records records = new Records();
  private long clockMs;
  // What loading one record takes.
  private long loadMs;

  private RecordBuffer record(long index) {
    long sensor = index % SERIES;
    return records.of(
        "sensor.temperature",
        ImmutableSortedMap.of("sensor", "sensor-" + sensor, "site", "site-" + sensor % 20),
        index,
        index,
        0);
  }

  /** Has no records: they follow from the index, so that the heap has those of the queue only. */
  private final class NoFile implements PointFile {
    long head;
    long tail;

    @Override
    public long append(byte[] bytes, int from, int length, int tagsAt, long takenAt) {
      return head++;
    }

    @Override
    public Reader reader() {
      return new Reader() {
        private RecordBuffer loaded;

        @Override
        public boolean load(long index) {
          clockMs += loadMs;
          loaded = record(index);
          return true;
        }

        @Override
        public byte[] bytes() {
          return loaded.bytes();
        }

        @Override
        public int length() {
          return loaded.length();
        }

        @Override
        public int tagsAt() {
          return loaded.tagsAt(0);
        }

        @Override
        public long takenAt() {
          return loaded.key(0);
        }

        @Override
        public void forget() {}

        @Override
        public void close() {}
      };
    }

    @Override
    public long lastTakenAt() {
      return 0;
    }

    @Override
    public long head() {
      return head;
    }

    @Override
    public long tail() {
      return tail;
    }

    @Override
    public boolean removeBefore(long index) {
      tail = Math.max(tail, index);
      return false;
    }
  }

  private CoalescingQueue queue(NoFile file, long windowMs, long maxBytes) throws IOException {
    return new CoalescingQueue(file, records.codec, windowMs, maxBytes, 0, () -> clockMs);
  }

  private static long used() {
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }

  @Test
  void halfAMillionSeriesStayWithinTheBound() throws IOException {
    NoFile file = new NoFile();
    CoalescingQueue queue = queue(file, WINDOW_MS, BOUND);
    BitSet stored = new BitSet(POINTS);
    long before = used();

    for (long index = 0; index < POINTS; index++) {
      queue.put(record(index), 0);
    }
    CoalescingQueue.Depth depth = queue.depth();
    assertTrue(depth.bytes() <= BOUND, depth.toString());
    assertTrue(depth.points() > SERIES, "memory is made use of: " + depth);
    assertEquals(POINTS, depth.waiting());
    long heap = used() - before;
    assertTrue(heap <= BOUND, heap + " bytes of heap in use for " + depth);
    assertTrue(
        heap <= AS_OBJECTS / 5 * depth.points(),
        heap + " bytes of heap in use, more than a fifth of what objects took, for " + depth);

    while (queue.depth().waiting() > 0) {
      queue.refill();
      List<Group> released = queue.take(200_000);
      // Memory is short until the file has been read back to its end; then windows count again.
      clockMs += 100;
      for (Group group : released) {
        for (Point point : group.points()) {
          assertFalse(stored.get((int) point.index()), "released twice");
          stored.set((int) point.index());
        }
        queue.done(group.points());
      }
      queue.checkpoint();
    }
    assertEquals(POINTS, stored.cardinality());
    queue.checkpoint();
    assertEquals(new CoalescingQueue.Depth(0, 0, 0, 0, 0), queue.depth());
  }

  /** The store is away, and each point has a moment of its own. */
  @ParameterizedTest
  @CsvSource({"0, 1", "100, 10", "15000, 1000"})
  void momentsOfFewPointsStayWithinTheBound(long windowMs, long apartMs) throws IOException {
    long maxBytes = 1 << 20;
    NoFile file = new NoFile();
    CoalescingQueue queue = queue(file, windowMs, maxBytes);
    long before = used();
    for (long index = 0; index < SLOW_POINTS; index++) {
      clockMs += apartMs;
      queue.put(record(index), clockMs);
    }
    long heap = used() - before;
    assertTrue(heap <= 2 * maxBytes, heap + " bytes of heap in use for " + queue.depth());
    assertEquals(SLOW_POINTS, queue.depth().waiting());
    drain(queue, SLOW_POINTS);
  }

  @Test
  void whatIsReadBackSlowlyStaysWithinTheBound() throws IOException {
    NoFile file = new NoFile();
    file.head = 2 * SLOW_POINTS;
    loadMs = 1;
    CoalescingQueue queue = queue(file, WINDOW_MS, BOUND);
    long before = used();
    int first = queue.refill();
    assertTrue(first < SLOW_POINTS, first + " at once, with nothing delivered");
    while (queue.depth().fileOnly() > 0) {
      queue.refill();
    }
    long heap = used() - before;
    assertTrue(heap <= 1 << 20, heap + " bytes of heap in use for " + queue.depth());
    drain(queue, 2 * SLOW_POINTS);
  }

  private void drain(CoalescingQueue queue, int points) throws IOException {
    int released = 0;
    queue.drain();
    while (queue.depth().waiting() > 0) {
      queue.refill();
      for (Group group : queue.take(1_000)) {
        released += group.points().size();
        queue.done(group.points());
      }
    }
    assertEquals(points, released);
  }
}
