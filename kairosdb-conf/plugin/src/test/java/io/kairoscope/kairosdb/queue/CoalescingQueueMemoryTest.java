package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.BitSet;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A million series in memory for a tenth of them: the bound holds, and nothing is forgotten. */
class CoalescingQueueMemoryTest {
  private static final int SERIES = 1_000_000;
  private static final int POINTS = 2 * SERIES;
  private static final long BOUND = 96L << 20;
  private static final long WINDOW_MS = 10_000;

  /** As a sensor of a fleet has it; nothing in it is shared with another point of the series. */
  private static Sample sample(long index) {
    long sensor = index % SERIES;
    String metric = new String("sensor.temperature");
    ImmutableSortedMap<String, String> tags =
        ImmutableSortedMap.of("sensor", "sensor-" + sensor, "site", "site-" + sensor % 20);
    byte[] value = ByteBuffer.allocate(Long.BYTES).putLong(index).array();
    return new Sample(new Series(metric, tags, new String("kairos_long")), index, 0, value);
  }

  /** Has no records: they follow from the index, so that the heap has those of the queue only. */
  private static final class NoFile implements PointFile {
    long head;
    long tail;

    @Override
    public long append(byte[] bytes) {
      return head++;
    }

    @Override
    public byte[] read(long index) {
      return new byte[0];
    }

    @Override
    public long appendedAt(long index) {
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
    public void removeBefore(long index) {
      tail = index;
    }
  }

  private static long used() {
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }

  @Test
  void aMillionSeriesStayWithinTheBound() throws IOException {
    long[] nowMs = {0};
    NoFile file = new NoFile();
    CoalescingQueue queue =
        new CoalescingQueue(file, (index, record) -> sample(index), WINDOW_MS, BOUND, () -> nowMs[0]);
    BitSet stored = new BitSet(POINTS);
    long before = used();

    for (long index = 0; index < POINTS; index++) {
      queue.put(sample(index), new byte[0], 0);
    }
    CoalescingQueue.Depth depth = queue.depth();
    assertTrue(depth.bytes() <= BOUND, depth.toString());
    assertTrue(depth.points() > 50_000, "memory is made use of: " + depth);
    assertEquals(POINTS, depth.waiting());
    long heap = used() - before;
    assertTrue(heap <= BOUND, heap + " bytes of heap in use for " + depth);

    while (queue.depth().waiting() > 0) {
      queue.refill();
      assertTrue(queue.depth().bytes() <= BOUND, queue.depth().toString());
      List<Group> released = queue.take(20_000);
      // Memory is short until the file has been read back to its end; then windows count again.
      nowMs[0] += 100;
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
    assertEquals(new CoalescingQueue.Depth(0, 0, 0, 0), queue.depth());
  }
}
