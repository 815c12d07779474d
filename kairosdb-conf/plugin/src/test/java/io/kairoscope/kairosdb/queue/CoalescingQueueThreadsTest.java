package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Many put and acknowledge while one reads back, releases and moves the checkpoint. */
class CoalescingQueueThreadsTest {
  private static final int THREADS = 3;
  private static final int EACH = 30_000;

  private static Sample sample(byte[] record) {
    int series = ByteBuffer.wrap(record).getInt();
    return new Sample(
        new Series("m" + series, Collections.emptySortedMap(), "t"), 0, 0, new byte[8]);
  }

  @Test
  void everyPointIsReleasedOnce() throws Exception {
    // From memory that is always short to memory that is never short.
    for (long maxBytes : new long[] {1, 50_000, 1 << 20, 1 << 28}) {
      MemoryFile file = new MemoryFile(() -> 0);
      CoalescingQueue queue =
          new CoalescingQueue(file, (index, record) -> sample(record), 0, maxBytes, () -> 0);
      ExecutorService threads = Executors.newFixedThreadPool(THREADS + 1);
      List<Future<?>> putting = new ArrayList<>();
      for (int thread = 0; thread < THREADS; thread++) {
        putting.add(threads.submit(() -> putAll(queue)));
      }
      BitSet released = new BitSet();
      int count = 0;
      while (count < THREADS * EACH) {
        queue.refill();
        List<Point> points = new ArrayList<>();
        for (Group group : queue.take(1_000)) {
          for (Point point : group.points()) {
            assertTrue(!released.get((int) point.index()), "released twice");
            released.set((int) point.index());
            count++;
            points.add(point);
          }
        }
        if (!points.isEmpty()) {
          threads.execute(() -> queue.done(points));
        }
        queue.checkpoint();
      }
      for (Future<?> one : putting) {
        one.get();
      }
      threads.shutdown();
      assertTrue(threads.awaitTermination(1, TimeUnit.MINUTES));
      queue.checkpoint();
      assertEquals(new CoalescingQueue.Depth(0, 0, 0, 0), queue.depth());
    }
  }

  private static Void putAll(CoalescingQueue queue) throws IOException {
    for (int i = 0; i < EACH; i++) {
      byte[] record = ByteBuffer.allocate(8).putInt(i % 97).array();
      queue.put(sample(record), record, 0);
    }
    return null;
  }
}
