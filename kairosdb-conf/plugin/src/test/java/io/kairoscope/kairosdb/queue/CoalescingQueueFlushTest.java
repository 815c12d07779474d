package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSetMultimap;
import com.google.common.collect.ImmutableSortedMap;
import com.google.common.collect.SetMultimap;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What a query makes urgent, beside what goes on waiting. */
class CoalescingQueueFlushTest {
  private static final int SERIES = 3;
  private static final int WINDOW_MS = 10_000;
  private static final SetMultimap<String, String> OURS = ImmutableSetMultimap.of("s", "" + SERIES);
  private static final SetMultimap<String, String> ALL = ImmutableSetMultimap.of();

  private final Records records = new Records();
  private final MemoryFile file = new MemoryFile();
  private final String metric = Records.series(SERIES).metric();
  private long clockMs;

  private CoalescingQueue queue() throws IOException {
    return queue(WINDOW_MS);
  }

  private CoalescingQueue queue(long windowMs) throws IOException {
    return new CoalescingQueue(file, records.codec, windowMs, 1 << 20, 0, () -> clockMs);
  }

  private List<Point> take(CoalescingQueue queue) throws IOException {
    List<Point> points = new ArrayList<>();
    queue.take(100).forEach(group -> points.addAll(group.points()));
    return points;
  }

  @Test
  void whatIsAskedForIsReleasedAndOthersOfItsMetricWait() throws Exception {
    CoalescingQueue queue = queue();
    // 10 and 17 have the same metric as 3.
    for (int series : new int[] {SERIES, 10, 17, 4}) {
      queue.put(records.of(series, 1, series), 0);
      queue.put(records.of(series, 2, series), 0);
    }
    assertTrue(queue.flush(metric, ImmutableSetMultimap.of("s", "4"), 0, () -> {}));
    assertFalse(queue.isUrgent());
    assertFalse(queue.flush(metric, OURS, 0, () -> {}));
    List<Group> groups = queue.take(100);
    assertEquals(1, groups.size());
    assertEquals(Records.series(SERIES), groups.get(0).series());
    assertEquals(2, groups.get(0).points().size());
    // On its way, and not settled.
    assertFalse(queue.flush(metric, OURS, 0, () -> {}));
    queue.done(groups.get(0).points());
    assertTrue(queue.flush(metric, OURS, 0, () -> {}));
    assertEquals(6, queue.depth().waiting());
    assertFalse(queue.flush(metric, ALL, 0, () -> {}));
    assertEquals(4, take(queue).size());
  }

  /** More than fit into what is looked through at once, and of one metric. */
  @Test
  void aFewSeriesAreFoundAmongMany() throws Exception {
    CoalescingQueue queue = queue();
    int many = 5_000;
    for (int round = 1; round <= 3; round++) {
      for (int sensor = 0; sensor < many; sensor++) {
        queue.put(sensor(sensor, round), clockMs);
      }
      clockMs += 100;
    }
    ImmutableSetMultimap<String, String> few =
        ImmutableSetMultimap.of("sensor", "7", "sensor", "4999", "sensor", "none", "all", "1");
    queue.flush("m", few, 0, () -> {});
    Map<String, Integer> found = new HashMap<>();
    for (Group group : queue.take(100)) {
      found.merge(group.series().tags().get("sensor"), group.points().size(), Integer::sum);
      queue.done(group.points());
    }
    assertEquals(Map.of("7", 3, "4999", 3), found);
    assertTrue(queue.flush("m", few, 0, () -> {}));
    assertEquals(3 * (many - 2), queue.depth().waiting());
  }

  private RecordBuffer sensor(int sensor, long time) {
    return records.of("m", ImmutableSortedMap.of("all", "1", "sensor", "" + sensor), time, 1, 0);
  }

  /** Of 60,000 series of one metric some pair has one key every third time. */
  @Test
  void bothOfTwoSeriesWithOneKeyAreFound() throws Exception {
    Map<Long, Integer> keys = new HashMap<>();
    int one = -1;
    int other = -1;
    for (int sensor = 0; one < 0; sensor++) {
      Integer before = keys.put(sensor(sensor, 1).key(0), sensor);
      if (before != null) {
        one = before;
        other = sensor;
      }
    }
    for (int asked : new int[] {one, other}) {
      CoalescingQueue queue = queue();
      for (int sensor : new int[] {0, one, other, 1}) {
        queue.put(sensor(sensor, 1), 0);
      }
      assertFalse(queue.flush("m", ImmutableSetMultimap.of("sensor", "" + asked), 0, () -> {}));
      List<String> found = new ArrayList<>();
      queue.take(100).forEach(group -> found.add(group.series().tags().get("sensor")));
      assertTrue(found.contains("" + asked), asked + " is among " + found);
      // Else the next one begins with what this one has left.
      file.tail = file.head();
    }
  }

  /** A series that is asked for again and again must not keep the others from the store. */
  @Test
  void aQueryOfWhatWasReleasedBeforeHoldsNothingUp() throws Exception {
    CoalescingQueue queue = queue(1);
    queue.put(records.of(SERIES, 1, 1), 1);
    queue.put(records.of(4, 1, 1), 1);
    queue.flush(metric, ALL, 0, () -> {});
    queue.take(100).forEach(group -> queue.done(group.points()));
    clockMs += 10;
    assertTrue(queue.flush(metric, ALL, 0, () -> {}));
    assertEquals(1, queue.take(100).size());
  }

  /** The store keeps the larger of two values that were written at the same time. */
  @Test
  void whatComesInTheSameMillisecondHasALaterWriteTime() throws Exception {
    for (SetMultimap<String, String> tags : List.of(OURS, ALL)) {
      CoalescingQueue queue = queue();
      queue.put(records.of(SERIES, 1, 9), 5);
      queue.flush(metric, tags, 0, () -> {});
      queue.put(records.of(SERIES, 1, 2), 5);
      Point earlier = take(queue).get(0);
      clockMs += WINDOW_MS;
      Point later = take(queue).get(0);
      assertTrue(later.index() > earlier.index());
      assertTrue(later.takenAt() > earlier.takenAt());
      queue.done(List.of(earlier, later));
      queue.checkpoint();
    }
  }

  @Test
  void whatComesWhileTheClockIsBehindHasLaterWriteTimesThatItSoonCatchesUpWith() throws Exception {
    CoalescingQueue queue = queue();
    List<Point> points = new ArrayList<>();
    queue.put(records.of(SERIES, 1, 99), 3_600_000);
    // Set back by an hour.
    for (int i = 0; i < 1_000; i++) {
      clockMs += 100;
      queue.put(records.of(SERIES, 1, i), clockMs);
      points.addAll(take(queue));
    }
    clockMs += WINDOW_MS;
    points.addAll(take(queue));
    assertTrue(points.size() >= 10, "one in each window, the last of its points");
    for (int i = 1; i < points.size(); i++) {
      assertTrue(points.get(i).takenAt() > points.get(i - 1).takenAt());
    }
    assertTrue(points.get(points.size() - 1).takenAt() < 3_600_000 + 2_000);
  }

  @Test
  void whatComesAfterWhatWasReadBackHasALaterWriteTime() throws Exception {
    queue().put(records.of(4, 1, 1), 5);
    // After a start, what comes waits in the file behind what is there.
    CoalescingQueue queue = queue();
    queue.put(records.of(SERIES, 1, 9), 5);
    queue.refill();
    queue.put(records.of(SERIES, 1, 2), 5);
    List<Point> both = new ArrayList<>(take(queue));
    clockMs += WINDOW_MS;
    both.addAll(take(queue));
    both.removeIf(point -> point.index() == 0);
    assertEquals(2, both.size());
    assertTrue(both.get(1).takenAt() > both.get(0).takenAt());
  }
}
