package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSetMultimap;
import com.google.common.collect.SetMultimap;
import java.io.IOException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Many put, flush and settle while one reads back, releases and moves the checkpoint. */
class CoalescingQueueThreadsTest {
  private static final int THREADS = 3;
  private static final int EACH = 30_000;
  private static final SetMultimap<String, String> ALL = ImmutableSetMultimap.of();
  private static final SetMultimap<String, String> ONE = ImmutableSetMultimap.of("s", "3");

  private final Records records = new Records();
  private final AtomicInteger times = new AtomicInteger();

  @Test
  void everyPointIsReleasedOnce() throws Exception {
    // From memory that is always short to memory that is never short.
    for (long maxBytes : new long[] {1, 50_000, 1 << 20, 1 << 28}) {
      MemoryFile file = new MemoryFile();
      file.overtaken = true;
      CoalescingQueue queue = new CoalescingQueue(file, records.codec, 50, maxBytes, 0, this::nowMs);
      ExecutorService threads = Executors.newFixedThreadPool(THREADS + 2);
      List<Future<?>> putting = new ArrayList<>();
      for (int thread = 0; thread < THREADS; thread++) {
        putting.add(threads.submit(() -> putAll(queue)));
      }
      AtomicBoolean ended = new AtomicBoolean();
      Future<?> flushing =
          threads.submit(
              () -> {
                while (!ended.get()) {
                  int now = times.get();
                  queue.flush("m" + now % 7, now % 2 == 0 ? ALL : ONE, 20, () -> {});
                }
                return null;
              });
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
      ended.set(true);
      flushing.get();
      threads.shutdown();
      assertTrue(threads.awaitTermination(1, TimeUnit.MINUTES));
      queue.checkpoint();
      assertEquals(new CoalescingQueue.Depth(0, 0, 0, 0, 0), queue.depth());
    }
  }

  private long nowMs() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }

  private Void putAll(CoalescingQueue queue) throws IOException {
    for (int i = 0; i < EACH; i++) {
      queue.put(records.of(i % 97, times.incrementAndGet(), i), 1);
    }
    return null;
  }
}
