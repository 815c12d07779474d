package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSetMultimap;
import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.datapoints.StringDataPoint;

/** What is released is bounded whatever the points are, and nothing is lost or overlooked by it. */
class CoalescingQueueBoundsTest {
  private static final int VALUE_BYTES = 64_000;
  private static final int TAGS = 500;
  private static final String METRIC = "m";

  private final Records records = new Records();
  private final MemoryFile file = new MemoryFile();

  private CoalescingQueue queue() throws Exception {
    return new CoalescingQueue(file, records.codec, 0, 1 << 20, 0, () -> 0);
  }

  private RecordBuffer large(long time, char what) throws Exception {
    String value = String.valueOf(what).repeat(VALUE_BYTES);
    return records.codec.record(
        METRIC, ImmutableSortedMap.of("s", "1"), new StringDataPoint(time, value), 0);
  }

  private RecordBuffer small(String sensor, long time) {
    return records.of(METRIC, ImmutableSortedMap.of("s", sensor), time, time, 0);
  }

  @Test
  void oneSeriesOfLargeValuesIsReleasedInParts() throws Exception {
    CoalescingQueue queue = queue();
    int count = 400;
    for (int i = 0; i < count; i++) {
      // Two of each write time; and of the same time, so that the later one counts.
      queue.put(large(i / 2, (char) ('a' + i % 2)), 100 + i / 2);
    }
    long before = 0;
    int found = 0;
    List<Group> groups;
    while (!(groups = queue.take(count)).isEmpty()) {
      assertEquals(1, groups.size());
      List<Point> points = groups.get(0).points();
      long most = CoalescingQueue.RELEASED_BYTES + 4 * VALUE_BYTES;
      assertTrue(Room.bytes(points) < most, points.size() + " points");
      for (Point point : points) {
        assertEquals(found++, point.time());
        assertEquals('b', point.value()[point.value().length - 1]);
        // What is of one write time was released together.
        assertTrue(point.takenAt() > before);
        before = point.takenAt();
      }
      queue.done(points);
    }
    assertEquals(count / 2, found);
    assertEquals(0, queue.depth().waiting());
  }

  @Test
  void manyTagsCountAsTheMemoryThatTheyTake() throws Exception {
    ImmutableSortedMap.Builder<String, String> tags = ImmutableSortedMap.naturalOrder();
    for (int i = 0; i < TAGS; i++) {
      tags.put("tag" + i, "");
    }
    ImmutableSortedMap<String, String> many = tags.build();
    CoalescingQueue queue = queue();
    int series = 300;
    for (int i = 0; i < series; i++) {
      queue.put(records.of("m" + i, many, 1, 1, 0), 1);
    }
    int released = 0;
    List<Group> groups;
    while (!(groups = queue.take(series)).isEmpty()) {
      assertTrue(groups.size() < series / 2, groups.size() + " series at once");
      for (Group group : groups) {
        assertTrue(Room.bytes(group.points()) > 2 * TAGS * SeriesRecords.WORD_BYTES);
        released++;
      }
    }
    assertEquals(series, released);
  }

  /** Nobody else has what was handed out of the run before. */
  @Test
  void whatWasReleasedBeforeAFailureIsHandedOut() throws Exception {
    CoalescingQueue queue = queue();
    for (int i = 0; i < 5; i++) {
      queue.put(small("" + i, 1), 1);
    }
    assertEquals(3, queue.take(3).size());
    queue.put(small("later", 1), 2);
    file.readsLeft = 2;
    assertEquals(2, queue.take(100).size());
    assertThrows(InternalError.class, () -> queue.take(100));
    file.readsLeft = -1;
    assertEquals(1, queue.take(100).size());
  }

  /** It may have lost power, and the driver says so 42 s later. */
  @Test
  void whatIsKeptStaysWhileANodeIsSilent() throws Exception {
    long[] nowMs = {0};
    CoalescingQueue queue =
        new CoalescingQueue(file, records.codec, 0, 1 << 20, 22_000, () -> nowMs[0]);
    queue.put(small("1", 1), 1);
    queue.put(small("2", 1), 1);
    queue.take(100).forEach(group -> queue.done(group.points()));
    for (int second = 0; second < 80; second++) {
      nowMs[0] = 1_000L * second;
      queue.hold(second > 0 && second < 50);
      queue.checkpoint();
      if (second == 51) {
        assertEquals(2, queue.kept());
        queue.rewrite();
        assertEquals(2, queue.takeAgain(100).size());
      }
    }
    assertEquals(0, queue.takeAgain(100).size());
  }

  /** Whatever it lost is not known when the next life of the process begins. */
  @Test
  void whatIsKeptForASilentNodeIsWrittenAgainAfterAStop() throws Exception {
    CoalescingQueue queue =
        new CoalescingQueue(file, records.codec, 0, 1 << 20, 22_000, () -> 0);
    queue.put(small("1", 1), 1);
    queue.put(small("2", 1), 1);
    queue.take(100).forEach(group -> queue.done(group.points()));
    queue.hold(true);
    queue.checkpoint();
    queue.end();
    assertEquals(2, queue.kept());

    CoalescingQueue next =
        new CoalescingQueue(file, records.codec, 0, 1 << 20, 22_000, () -> 0);
    next.refill();
    List<Group> again = next.take(100);
    assertEquals(2, again.size());
    again.forEach(group -> next.done(group.points()));
    next.end();
    assertEquals(0, next.kept());
  }

  /** Of KairosDB's own queue; the file of dead letters is on a full disk, and all others go on. */
  @Test
  void aStrangerThatCannotBeKeptStopsNobody() throws Exception {
    boolean[] full = {true};
    List<DeadLetters.Letter> letters = new ArrayList<>();
    PointCodec codec =
        new PointCodec(
            new BuiltInTypes(),
            records.unreadable,
            letter -> {
              if (full[0]) {
                throw new IOException("no space");
              }
              letters.add(letter);
            });
    appendStranger(1);
    appendStranger(2);
    RecordBuffer good = small("1", 3);
    file.append(good.bytes(), 0, good.length(0), good.tagsAt(0), 5);
    long[] nowMs = {0};
    CoalescingQueue queue = new CoalescingQueue(file, codec, 0, 1 << 20, 0, () -> nowMs[0]);
    assertEquals(3, queue.refill());
    queue.put(small("2", 4), 6);
    assertEquals(2, queue.depth().points() - 2, "these are not in the file only");
    queue.take(100).forEach(group -> queue.done(group.points()));
    queue.refill();
    queue.checkpoint();
    assertEquals(2, queue.depth().waiting());
    assertEquals(0, file.tail());

    full[0] = false;
    nowMs[0] += 1_000;
    queue.refill();
    queue.checkpoint();
    assertEquals(List.of(1L, 2L), letters.stream().map(one -> one.point().time()).toList());
    assertEquals(new CoalescingQueue.Depth(0, 0, 0, 0, 0), queue.depth());
    assertEquals(0, records.unreadable.sum());
  }

  private void appendStranger(long time) throws IOException {
    byte[] record = small("1", time).bytes().clone();
    int length = small("1", time).length(0);
    record[new String(record, StandardCharsets.ISO_8859_1).indexOf("kairos_")] = 'X';
    file.append(record, 0, length, 0, 5);
  }

  /** Each waits for the disk, and there may be thousands: nothing is stored meanwhile. */
  @Test
  void manyStrangersAreKeptInTurnWithDeliveries() throws Exception {
    long[] nowMs = {0};
    boolean[] full = {true};
    List<Long> keptAt = new ArrayList<>();
    PointCodec codec =
        new PointCodec(
            new BuiltInTypes(),
            records.unreadable,
            letter -> {
              nowMs[0] += 100;
              if (full[0]) {
                throw new IOException("no space");
              }
              keptAt.add(nowMs[0]);
            });
    int strangers = 50;
    for (int i = 0; i < strangers; i++) {
      appendStranger(i);
    }
    CoalescingQueue queue = new CoalescingQueue(file, codec, 0, 1 << 20, 0, () -> nowMs[0]);
    assertEquals(strangers, queue.refill());
    full[0] = false;
    queue.refill();
    assertEquals(0, keptAt.size(), "just after it failed");
    nowMs[0] += 1_000;
    for (int turns = 1; turns <= 5; turns++) {
      queue.refill();
      assertEquals(10 * turns, keptAt.size());
    }
    assertEquals(0, queue.depth().waiting());
  }

  @Test
  void whatIsLongOnItsWayIsNotTakenForStored() throws Exception {
    CoalescingQueue queue = queue();
    queue.put(small("stuck", 1), 1);
    List<Point> stuck = queue.take(100).get(0).points();
    for (int i = 0; i < 40; i++) {
      queue.put(small("other", i), i);
      queue.take(100);
    }
    ImmutableSetMultimap<String, String> wanted = ImmutableSetMultimap.of("s", "stuck");
    assertFalse(queue.flush(METRIC, wanted, 0, () -> {}));
    queue.done(stuck);
  }

  @Test
  void whatIsBeingSortedIsNotTakenForStored() throws Exception {
    CoalescingQueue queue =
        new CoalescingQueue(file, records.codec, 0, 64 << 20, 0, () -> 0);
    for (int i = 0; i < 200_000; i++) {
      queue.put(small("" + i % 1_000, i), i);
    }
    AtomicReference<Throwable> failure = new AtomicReference<>();
    Thread taking =
        new Thread(
            () -> {
              try {
                queue.take(1);
              } catch (Throwable error) {
                failure.set(error);
              }
            });
    taking.start();
    List<Boolean> stored = new ArrayList<>();
    while (taking.isAlive()) {
      stored.add(queue.flush(METRIC, ImmutableSetMultimap.of(), 0, () -> {}));
    }
    taking.join();
    assertEquals(null, failure.get());
    assertFalse(stored.contains(true));
  }
}
