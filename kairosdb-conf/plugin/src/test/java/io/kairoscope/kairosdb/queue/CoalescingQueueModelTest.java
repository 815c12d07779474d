package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/**
 * Any interleaving of put, refill, take, acknowledgement in any order, checkpoint, crash and drain,
 * against a reference that only knows which points were put, released and acknowledged.
 */
class CoalescingQueueModelTest {
  private static final int RUNS = 3_000;
  private static final int STEPS = 400;

  @Test
  void holdsItsPromisesInAnyInterleaving() throws IOException {
    for (long seed = 0; seed < RUNS; seed++) {
      Model model = new Model(seed);
      try {
        model.run();
      } catch (AssertionError | RuntimeException error) {
        throw new AssertionError("seed " + seed + " after " + model.history, error);
      }
    }
  }

  private static final class Model {
    final Random random;
    final StringBuilder history = new StringBuilder();
    final long windowMs;
    final long maxBytes;
    final int seriesCount;
    final MemoryFile file;
    long nowMs = 1_000_000;
    CoalescingQueue queue;
    boolean draining;

    // The reference: of each point that was put, its series; which are acknowledged; and of this
    // life of the process, which were released, and which of these are not acknowledged.
    final List<Integer> put = new ArrayList<>();
    final Set<Long> acknowledged = new HashSet<>();
    final Set<Long> released = new HashSet<>();
    final List<Point> flying = new ArrayList<>();
    final Map<Long, Long> putAt = new HashMap<>();
    // What memory had no room for, or lost in a crash: it is due as soon as it is read back.
    final Set<Long> readBack = new HashSet<>();
    // Points at these indexes have a record that is no point.
    final Set<Long> broken = new HashSet<>();

    Model(long seed) {
      random = new Random(seed);
      windowMs = random.nextInt(4) == 0 ? 0 : random.nextInt(2_000);
      seriesCount = 1 + random.nextInt(20);
      // From room for no more than one point to room for all.
      maxBytes = 1 + random.nextInt(random.nextBoolean() ? 20_000 : 500_000);
      file = new MemoryFile(() -> nowMs);
      start();
    }

    void start() {
      queue = new CoalescingQueue(file, this::decode, windowMs, maxBytes, () -> nowMs);
    }

    Sample decode(long index, byte[] record) {
      if (record.length == 0) {
        return null;
      }
      ByteBuffer buffer = ByteBuffer.wrap(record);
      return new Sample(series(buffer.getInt()), buffer.getLong(), 0, new byte[buffer.getInt()]);
    }

    static Series series(int number) {
      return new Series("m" + number, Collections.emptySortedMap(), "kairos_double");
    }

    void run() throws IOException {
      for (int step = 0; step < STEPS; step++) {
        step();
        check();
      }
      history.append(" END");
      finish();
    }

    void step() throws IOException {
      int dice = random.nextInt(100);
      if (dice < 55) {
        put();
      } else if (dice < 63) {
        int by = random.nextInt(400);
        history.append(" +").append(by);
        nowMs += by;
      } else if (dice < 70) {
        history.append(" refill");
        queue.refill();
      } else if (dice < 82) {
        take(1 + random.nextInt(40));
      } else if (dice < 92) {
        acknowledge(random.nextInt(30));
      } else if (dice < 96) {
        history.append(" checkpoint");
        queue.checkpoint();
      } else if (dice < 97) {
        history.append(" broken");
        broken.add(file.append(new byte[0]));
        put.add(-1);
      } else if (dice < 98) {
        crash();
      } else {
        failPut();
      }
    }

    void put() throws IOException {
      int series = random.nextInt(seriesCount);
      int size = random.nextInt(50) == 0 ? random.nextInt(5_000) : 8;
      long index = put.size();
      history.append(" put").append(series);
      byte[] record = ByteBuffer.allocate(16).putInt(series).putLong(index).putInt(size).array();
      queue.put(new Sample(series(series), index, 0, new byte[size]), record, nowMs);
      put.add(series);
      putAt.put(index, nowMs);
    }

    void failPut() {
      history.append(" full");
      file.full = true;
      try {
        queue.put(new Sample(series(0), 0, 0, new byte[8]), new byte[16], nowMs);
        fail("a point was taken that is not in the file");
      } catch (IOException expected) {
        file.full = false;
      }
    }

    void take(int enough) {
      history.append(" take").append(enough);
      CoalescingQueue.Depth before = queue.depth();
      Set<String> whole = new HashSet<>();
      Map<String, Integer> waitingOf = waitingBySeries();
      long lastDueMs = 0;
      int count = 0;
      for (Group group : queue.take(enough)) {
        assertTrue(count < enough, "a series more than was enough");
        String metric = group.series().metric();
        assertTrue(whole.add(metric), "a series in two parts");
        long last = -1;
        for (Point point : group.points()) {
          assertTrue(point.index() < put.size(), "released what was not put");
          assertEquals("m" + put.get((int) point.index()), metric, "a point of another series");
          assertEquals(point.index(), point.time(), "another point");
          assertEquals(putAt.get(point.index()), point.takenAt());
          assertTrue(released.add(point.index()), "released twice");
          assertTrue(last < point.index(), "not in order within the series");
          last = point.index();
          flying.add(point);
          count++;
        }
        long first = group.points().get(0).index();
        assertEquals(waitingOf.get(metric), group.points().size(), "not the whole series");
        boolean pressed = draining || before.fileOnly() > 0 || before.bytes() >= 0.75 * maxBytes;
        long dueMs = dueMs(first);
        assertTrue(pressed || dueMs <= nowMs, "released before it is due");
        if (!readBack.contains(first)) {
          assertTrue(lastDueMs <= dueMs, "not in the order of what is due");
          lastDueMs = dueMs;
        }
      }
      boolean noneLeft = flying.size() == queue.depth().points();
      assertTrue(count >= enough || noneLeft || !dueLeft(), "kept what was due");
    }

    /** What waits in memory of each series: by the file's order, and how far memory has read. */
    Map<String, Integer> waitingBySeries() {
      Map<String, Integer> waiting = new TreeMap<>();
      long end = file.head() - queue.depth().fileOnly();
      for (long index = file.tail; index < end; index++) {
        if (!released.contains(index) && !acknowledged.contains(index) && !broken.contains(index)) {
          waiting.merge("m" + put.get((int) index), 1, Integer::sum);
        }
      }
      return waiting;
    }

    boolean dueLeft() {
      Set<Integer> seen = new HashSet<>();
      long end = file.head() - queue.depth().fileOnly();
      for (long index = file.tail; index < end; index++) {
        boolean waits =
            !released.contains(index) && !acknowledged.contains(index) && !broken.contains(index);
        // A series is due with its oldest point.
        if (waits && seen.add(put.get((int) index)) && dueMs(index) <= nowMs) {
          return true;
        }
      }
      return false;
    }

    /** When a series is due whose oldest point is this one. */
    long dueMs(long index) {
      if (readBack.contains(index)) {
        return 0;
      }
      long taken = putAt.get(index);
      long due = CoalescingQueue.dueMs(series(put.get((int) index)), taken, windowMs);
      assertTrue(due >= taken && due <= taken + windowMs, "not within the window");
      return due;
    }

    void acknowledge(int count) {
      history.append(" ack").append(count);
      // In any order, and some never: those fail again and again.
      Collections.shuffle(flying, random);
      List<Point> done = flying.subList(0, Math.min(count, flying.size()));
      queue.done(done);
      done.forEach(point -> acknowledged.add(point.index()));
      done.clear();
    }

    void crash() {
      history.append(" CRASH");
      // What was acknowledged above the checkpoint is released again.
      acknowledged.removeIf(index -> index >= file.tail);
      released.clear();
      flying.clear();
      readBack.clear();
      for (long index = file.tail; index < put.size(); index++) {
        readBack.add(index);
      }
      start();
    }

    void check() {
      CoalescingQueue.Depth depth = queue.depth();
      for (long index = file.tail - 1; index >= Math.max(0, file.tail - 50); index--) {
        assertTrue(
            acknowledged.contains(index) || broken.contains(index),
            "the checkpoint passed a point that is not acknowledged");
      }
      assertTrue(
          depth.bytes() <= maxBytes || depth.points() <= 1, "memory beyond its bound: " + depth);
      assertEquals(file.head() - file.tail, depth.sinceCheckpoint());
      if (depth.fileOnly() > 0) {
        for (long index = file.head() - depth.fileOnly(); index < file.head(); index++) {
          readBack.add(index);
        }
      }
    }

    /** After whatever happened: all that was put is released and can be acknowledged. */
    void finish() throws IOException {
      if (random.nextBoolean()) {
        crash();
      }
      queue.drain();
      draining = true;
      for (int round = 0; file.tail < file.head(); round++) {
        assertTrue(round < 100_000, "does not come to an end: " + queue.depth());
        queue.refill();
        take(1 + random.nextInt(200));
        check();
        acknowledge(flying.size());
        queue.checkpoint();
      }
      assertEquals(put.size(), acknowledged.size() + broken.size());
      assertEquals(new CoalescingQueue.Depth(0, 0, 0, 0), queue.depth());
    }
  }
}
