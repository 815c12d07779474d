package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.google.common.collect.HashMultimap;
import com.google.common.collect.SetMultimap;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.util.KDataOutput;

/**
 * Any interleaving of put, refill, take, settling in any order, giving back what the store does not
 * take and releasing it again, flush, writing again, checkpoint, crash and drain, with clocks that are set back and records that are torn, against a reference that
 * only knows which points were put, released and settled.
 */
class CoalescingQueueModelTest {
  private static final int RUNS = 1_000;
  private static final int STEPS = 400;

  @Test
  void holdsItsPromisesInAnyInterleaving() throws Exception {
    for (long seed = 0; seed < RUNS; seed++) {
      Model model = new Model(seed);
      try {
        model.run();
      } catch (AssertionError | RuntimeException error) {
        String history = model.history.toString();
        int from = Math.max(0, history.length() - 1_000);
        throw new AssertionError("seed " + seed + " after " + history.substring(from), error);
      }
    }
  }

  /** From when it is due by the queue's clock, and when it was taken, for the store. */
  private record Put(int series, long time, long value, long dueMs, long fromMs, long takenAt) {}

  private static final class Model {
    final Random random;
    final StringBuilder history = new StringBuilder();
    final Records records = new Records();
    final long windowMs;
    final long maxBytes;
    final long keepMs;
    final int seriesCount;
    final MemoryFile file = new MemoryFile();
    long clockMs = 1_000_000;
    long wallMs = 5_000_000;
    CoalescingQueue queue;
    boolean draining;
    boolean flushed;

    // The reference: of each record what was put, null for none; which are settled and when; and of
    // this life of the process, which were released, and which of these are on their way.
    final List<Put> put = new ArrayList<>();
    final Map<Long, Long> settledAt = new HashMap<>();
    final Set<Long> released = new HashSet<>();
    final List<Point> flying = new ArrayList<>();
    final Set<Long> parked = new HashSet<>();
    boolean everGivenBack;
    final Set<Long> readBack = new HashSet<>();
    // When what was written again, in this life or another, had been taken.
    final Map<Long, Long> rewritten = new HashMap<>();
    final Set<Series> urgent = new HashSet<>();

    Model(long seed) throws IOException {
      random = new Random(seed);
      windowMs = random.nextInt(4) == 0 ? 0 : random.nextInt(2_000);
      keepMs = random.nextInt(3) * 700;
      seriesCount = 1 + random.nextInt(20);
      // From room for no more than one point to room for all.
      maxBytes = 1 + random.nextInt(random.nextBoolean() ? 500 : 20_000);
      start();
    }

    void start() throws IOException {
      queue =
          new CoalescingQueue(file, records.codec, windowMs, maxBytes, keepMs, () -> clockMs);
    }

    void run() throws Exception {
      for (int step = 0; step < STEPS; step++) {
        step();
        check();
      }
      history.append(" END");
      finish();
    }

    void step() throws Exception {
      int dice = random.nextInt(100);
      if (dice < 55) {
        put();
      } else if (dice < 63) {
        int by = random.nextInt(400);
        history.append(" +").append(by);
        clockMs += by;
        wallMs += random.nextInt(20) == 0 ? -3_600_000 : by;
      } else if (dice < 70) {
        history.append(" refill");
        queue.refill();
      } else if (dice < 78) {
        take(1 + random.nextInt(40));
      } else if (dice < 79) {
        giveBack(random.nextInt(30));
      } else if (dice < 80) {
        takeParked(1 + random.nextInt(40));
      } else if (dice < 90) {
        settle(random.nextInt(30));
      } else if (dice < 93) {
        history.append(" checkpoint");
        queue.checkpoint();
      } else if (dice < 95) {
        flush();
      } else if (dice < 96) {
        again();
      } else if (dice < 97) {
        torn();
      } else if (dice < 98) {
        crash();
      } else {
        failPut();
      }
    }

    void put() throws IOException {
      int series = random.nextInt(seriesCount);
      // Now and then a time that the series has already.
      long time = random.nextInt(5) == 0 ? random.nextInt(5) : put.size() + 10;
      history.append(" put").append(series);
      long value = put.size();
      RecordBuffer record = records.of(series, time, value);
      queue.put(record, wallMs);
      Put last = put.isEmpty() ? null : put.get(put.size() - 1);
      long takenAt = takenAt(put.size());
      // Of one write time all are due from the same moment, so that they are released together.
      boolean together = last != null && last.takenAt == takenAt;
      long fromMs = together ? last.fromMs : clockMs;
      long dueMs = CoalescingQueue.dueMs(record.key(0), fromMs, windowMs);
      put.add(new Put(series, time, value, dueMs, fromMs, takenAt));
      assertTrue(clockMs - fromMs < 50, "one write time for too long");
      assertTrue(dueMs <= clockMs + windowMs, "not within the window");
    }

    void failPut() {
      history.append(" full");
      file.full = true;
      try {
        queue.put(records.of(0, 0, 0), wallMs);
        fail("a point was taken that is not in the file");
      } catch (IOException expected) {
        file.full = false;
      }
    }

    void torn() throws IOException {
      history.append(" torn");
      // As it is found by the next start.
      if (random.nextBoolean()) {
        file.append(new byte[0], 0, 0, 0, wallMs);
      } else {
        file.append(new byte[30], 0, 30, 0, wallMs);
      }
      put.add(null);
      crash();
    }

    void take(int enough) throws IOException {
      history.append(" take").append(enough);
      boolean pressed = queue.isPressed();
      if (pressed) {
        // All that waits is sorted now, and handed out one after the other.
        for (long index = file.tail; index < put.size(); index++) {
          readBack.add(index);
        }
      }
      int count = 0;
      for (Group group : queue.take(enough)) {
        assertTrue(count < enough, "a series more than was enough");
        count += group.points().size();
        check(group, pressed);
        for (Point point : group.points()) {
          assertTrue(released.add(point.index()), "released twice");
          flying.add(point);
        }
      }
    }

    void giveBack(int count) throws IOException {
      history.append(" back").append(count);
      Collections.shuffle(flying, random);
      List<Point> some = flying.subList(0, Math.min(count, flying.size()));
      for (Point point : some) {
        giveBack(point);
        parked.add(point.index());
        released.remove(point.index());
      }
      some.clear();
    }

    void giveBack(Point point) throws IOException {
      everGivenBack = true;
      Series series = Records.series(put.get((int) point.index()).series);
      queue.giveBack(new RowKey(series, "fake", 0), new ArrayDeque<>(List.of(point)));
    }

    void takeParked(int enough) throws IOException {
      history.append(" parked").append(enough);
      for (Group group : queue.takeParked(enough)) {
        for (Point point : group.points()) {
          readBack.add(point.index());
          assertTrue(parked.remove(point.index()), "it was not given back");
          assertTrue(released.add(point.index()), "released twice");
          flying.add(point);
        }
        check(group, true);
      }
    }

    void check(Group group, boolean pressed) throws IOException {
      Set<Long> times = new HashSet<>();
      for (Point point : group.points()) {
        Put was = put.get((int) point.index());
        assertEquals(Records.series(was.series), group.series(), "of another series");
        assertEquals(was.time, point.time(), "another point");
        KDataOutput value = new KDataOutput();
        new LongDataPoint(0, was.value).writeValueToBuffer(value);
        assertTrue(Arrays.equals(value.getBytes(), point.value()), "another value");
        assertTrue(times.add(point.time()), "two of one time in one batch");
        boolean due = was.dueMs <= clockMs || readBack.contains(point.index());
        assertTrue(
            due || pressed || flushed || urgent.contains(group.series()),
            "released before it is due");
        for (var one : rewritten.entrySet()) {
          Put earlier = put.get(one.getKey().intValue());
          if (one.getKey() < point.index()
              && earlier.series == was.series
              && earlier.time == was.time) {
            assertTrue(one.getValue() < point.takenAt(), "a tie with a value written again");
          }
        }
        for (long index = file.tail; index < point.index(); index++) {
          Put earlier = put.get((int) index);
          if (earlier != null && earlier.series == was.series && earlier.time == was.time) {
            assertTrue(
                earlier.takenAt < was.takenAt || !released.contains(index),
                "a tie with a value that was released before");
          }
        }
        // Whatever has the same time and came before must be written before it, or never.
        for (long index = point.index() + 1; index < put.size(); index++) {
          Put later = put.get((int) index);
          if (later != null && later.series == was.series && later.time == was.time) {
            assertTrue(
                later.takenAt > point.takenAt() || !released.contains(index),
                "a tie between two values, in two releases");
          }
        }
      }
    }

    long takenAt(long index) {
      PointFile.Reader reader = file.reader();
      try {
        reader.load(index);
        return reader.takenAt();
      } catch (IOException impossible) {
        throw new AssertionError(impossible);
      }
    }

    void settle(int count) {
      history.append(" settle").append(count);
      // In any order, and some never: those fail again and again.
      Collections.shuffle(flying, random);
      List<Point> done = flying.subList(0, Math.min(count, flying.size()));
      queue.done(done);
      done.forEach(point -> settledAt.put(point.index(), clockMs));
      done.clear();
    }

    void flush() throws Exception {
      int series = random.nextInt(seriesCount);
      String metric = Records.series(series).metric();
      SetMultimap<String, String> tags = HashMultimap.create();
      if (random.nextBoolean()) {
        Records.series(series).tags().forEach(tags::put);
        tags.put("s", "another");
      }
      history.append(" flush").append(series).append(tags);
      Set<Series> wanted = new HashSet<>();
      for (int i = 0; i < seriesCount; i++) {
        Series one = Records.series(i);
        if (one.metric().equals(metric) && (tags.isEmpty() || i == series)) {
          wanted.add(one);
        }
      }
      urgent.addAll(wanted);
      boolean all = queue.flush(metric, tags, 0, () -> {});
      boolean waits = false;
      for (long index = file.tail; index < put.size(); index++) {
        Put one = put.get((int) index);
        waits |=
            one != null
                && wanted.contains(Records.series(one.series))
                && !settledAt.containsKey(index)
                && !replaced(index);
      }
      assertFalse(all && waits, "says that all is stored, and it is not");
    }

    /** Whether a later one of the same time was released, or waits. */
    boolean replaced(long index) {
      Put one = put.get((int) index);
      for (long later = index + 1; later < put.size(); later++) {
        Put other = put.get((int) later);
        if (other != null && other.series == one.series && other.time == one.time) {
          return true;
        }
      }
      return false;
    }

    /** Writes again what is kept: all that is stored comes once more, whatever is not before it. */
    void again() throws IOException {
      history.append(" again");
      queue.checkpoint();
      Set<Long> kept = new HashSet<>();
      for (long index = file.tail; index < file.head(); index++) {
        boolean lately =
            settledAt.containsKey(index)
                && (!everGivenBack || settledAt.get(index) > clockMs - keepMs);
        if (lately && !replaced(index)) {
          kept.add(index);
        }
      }
      queue.rewrite();
      for (int round = 0; round < 10_000 && !kept.isEmpty(); round++) {
        List<Group> groups = queue.takeAgain(1 + random.nextInt(20));
        for (Group group : groups) {
          check(group, true);
          for (Point point : group.points()) {
            rewritten.put(point.index(), point.takenAt());
            if (random.nextInt(20) == 0) {
              giveBack(point);
            } else {
              kept.remove(point.index());
              queue.done(List.of(point));
            }
          }
        }
        clockMs += 10_000;
        queue.checkpoint();
      }
      // One that another of a later release replaces is written as well, or not.
      assertEquals(Set.of(), kept, "not written again");
    }

    boolean isSettled(long index) {
      return settledAt.containsKey(index) || put.get((int) index) == null || replaced(index);
    }

    void crash() throws IOException {
      history.append(" CRASH");
      // What was settled above the checkpoint is released again.
      settledAt.keySet().removeIf(index -> index >= file.tail);
      released.clear();
      flying.clear();
      parked.clear();
      everGivenBack = false;
      readBack.clear();
      urgent.clear();
      for (long index = file.tail; index < put.size(); index++) {
        readBack.add(index);
      }
      start();
    }

    void check() {
      CoalescingQueue.Depth depth = queue.depth();
      for (long index = file.tail - 1; index >= Math.max(0, file.tail - 50); index--) {
        assertTrue(isSettled(index), "the checkpoint passed a point that is not settled");
        Long at = settledAt.get(index);
        assertTrue(
            at == null || at <= clockMs - keepMs, "what was settled lately is not kept");
      }
      assertEquals(file.head() - file.tail, depth.sinceCheckpoint());
      assertTrue(depth.parked() <= parked.size(), depth.toString());
      assertTrue(depth.points() >= flying.size(), depth.toString());
      if (depth.fileOnly() > 0) {
        for (long index = file.head() - depth.fileOnly(); index < file.head(); index++) {
          readBack.add(index);
        }
      }
    }

    /** After whatever happened: all that was put is released and can be settled. */
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
        takeParked(1 + random.nextInt(200));
        check();
        settle(flying.size());
        // What is still being written again holds the checkpoint.
        queue.takeAgain(1_000).forEach(group -> queue.done(group.points()));
        clockMs += 100;
        queue.checkpoint();
      }
      for (long index = 0; index < put.size(); index++) {
        assertTrue(isSettled(index), "never settled: " + index);
      }
      assertEquals(new CoalescingQueue.Depth(0, 0, 0, 0, 0), queue.depth());
    }
  }
}
