package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.bigqueue.BigArrayImpl;

/** The queue on KairosDB's real file: its checkpoints, its pages, and its start after a crash. */
class BigArrayFileTest {
  @TempDir Path folder;

  private BigArrayImpl open() throws IOException {
    return new BigArrayImpl(folder.toString(), "queue", BigArrayImpl.MINIMUM_DATA_PAGE_SIZE);
  }

  private static CoalescingQueue queue(PointFile file) {
    CoalescingQueue.Decoder decoder =
        (index, record) -> {
          int series = record.length == 0 ? 0 : ByteBuffer.wrap(record).getInt();
          return series == 0
              ? null
              : new Sample(
                  new Series("m" + series, Collections.emptySortedMap(), "t"), index, 0, record);
        };
    return new CoalescingQueue(file, decoder, 0, 1 << 30, () -> 0);
  }

  private static void put(CoalescingQueue queue, int series, int size) throws IOException {
    byte[] record = ByteBuffer.allocate(size).putInt(0, series).array();
    queue.put(
        new Sample(new Series("m" + series, Collections.emptySortedMap(), "t"), 0, 0, record),
        record,
        1);
  }

  @Test
  void theCheckpointIsTheLowestPointThatIsNotAcknowledged() throws IOException {
    try (BigArrayImpl array = open()) {
      BigArrayFile file = new BigArrayFile(array);
      CoalescingQueue queue = queue(file);
      queue.checkpoint();
      for (int i = 0; i < 10; i++) {
        put(queue, 1 + i % 2, 8);
      }
      List<Group> groups = queue.take(100);
      queue.done(groups.get(1).points());
      queue.checkpoint();
      assertEquals(0, file.tail());
      queue.done(groups.get(0).points());
      queue.checkpoint();
      // The file keeps its last record, stored or not.
      assertEquals(9, file.tail());
      assertTrue(Math.abs(file.appendedAt(9) - System.currentTimeMillis()) < 3_600_000, "ms");
    }
  }

  @Test
  void afterACrashAllThatWasNotAcknowledgedIsReleasedAgain() throws IOException {
    Random random = new Random(1);
    List<Long> left = new ArrayList<>();
    // Not closed: what the next one finds is what a killed process leaves behind.
    BigArrayImpl killed = open();
    BigArrayFile file = new BigArrayFile(killed);
    CoalescingQueue queue = queue(file);
    // 100 MB: several pages of data, the first of which is given up and deleted.
    for (int i = 0; i < 1_000; i++) {
      put(queue, 1 + random.nextInt(20), 100_000);
    }
    List<Point> points = new ArrayList<>();
    queue.take(10_000).forEach(group -> points.addAll(group.points()));
    points.sort((a, b) -> Long.compare(a.index(), b.index()));
    List<Point> done = new ArrayList<>(points.subList(0, 500));
    for (Point point : points.subList(500, 1_000)) {
      if (random.nextBoolean()) {
        done.add(point);
      } else {
        left.add(point.index());
      }
    }
    Collections.shuffle(done, random);
    queue.done(done);
    queue.checkpoint();
    assertEquals(left.get(0), file.tail());

    // The checkpoint is on disk only with the next point. Until then the file begins where its
    // pages may be gone, and these records come back empty.
    try (BigArrayImpl array = open()) {
      CoalescingQueue next = queue(new BigArrayFile(array));
      assertEquals(0, array.getTailIndex());
      next.refill();
      List<Long> again = new ArrayList<>();
      for (Group group : next.take(10_000)) {
        for (Point point : group.points()) {
          again.add(point.index());
          byte[] record = file.read(Math.max(point.index(), file.tail()));
          if (point.index() >= file.tail()) {
            assertArrayEquals(record, point.value());
          }
        }
      }
      assertTrue(again.containsAll(left));
    }
  }
}
