package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.bigqueue.BigArrayImpl;

/** The queue's file: its checkpoints, its pages, a start after a crash, and KairosDB's own of it. */
class QueueFileTest {
  private static final int PAGE_BYTES = BigArrayImpl.MINIMUM_DATA_PAGE_SIZE;

  @TempDir Path folder;

  private QueueFile open() throws IOException {
    return new QueueFile(folder, PAGE_BYTES, System::currentTimeMillis);
  }

  /** KairosDB's own, as its modules open it. */
  private BigArrayImpl kairosDbs() throws IOException {
    return new BigArrayImpl(folder.toString(), "kairos_queue", PAGE_BYTES);
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

  /** Of a size that says which one it is, too. */
  private static byte[] record(long index, int about) {
    byte[] bytes = new byte[about + (int) (index % 100)];
    new Random(index).nextBytes(bytes);
    return bytes;
  }

  private long pages(String kind) throws IOException {
    try (Stream<Path> files = Files.list(folder.resolve("kairos_queue").resolve(kind))) {
      return files.count();
    }
  }

  @Test
  void theCheckpointIsTheLowestPointThatIsNotAcknowledged() throws IOException {
    try (QueueFile file = open()) {
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
  void afterACrashAllThatWasNotAcknowledgedIsReleasedAgainAndNoMore() throws IOException {
    Random random = new Random(1);
    List<Long> left = new ArrayList<>();
    // Not closed: what the next one finds is what a killed process leaves behind.
    QueueFile killed = open();
    CoalescingQueue queue = queue(killed);
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
    long before = pages("data");
    queue.done(done);
    queue.checkpoint();
    assertEquals(left.get(0), killed.tail());
    assertTrue(pages("data") < before, "pages of what is stored are deleted");

    try (QueueFile file = open()) {
      assertEquals(left.get(0), file.tail());
      CoalescingQueue next = queue(file);
      next.refill();
      List<Long> again = new ArrayList<>();
      for (Group group : next.take(10_000)) {
        for (Point point : group.points()) {
          again.add(point.index());
          assertArrayEquals(file.read(point.index()), point.value());
        }
      }
      assertTrue(again.containsAll(left));
      assertTrue(again.stream().allMatch(index -> index >= left.get(0)));
    }
  }

  @Test
  void eitherQueueGoesOnWhereTheOtherWas() throws IOException {
    int about = 400_000;
    int head = 0;
    int tail = 0;
    Random random = new Random(2);
    for (int turn = 0; turn < 12; turn++) {
      int more = 20 + random.nextInt(100);
      boolean ours = turn % 2 == 0;
      // Closed well in some turns, killed in the others.
      boolean closes = turn % 3 != 0;
      int keep = random.nextInt(60);
      if (ours) {
        QueueFile file = open();
        assertEquals(head, file.head());
        // KairosDB's own puts its tail to disk with the next record only.
        assertTrue(file.tail() <= tail);
        for (long i = tail; i < head; i++) {
          assertArrayEquals(record(i, about), file.read(i));
        }
        for (int i = 0; i < more; i++) {
          assertEquals(head, file.append(record(head, about)));
          head++;
        }
        tail = Math.max(tail, head - 1 - keep);
        file.removeBefore(tail);
        if (closes) {
          file.close();
        }
      } else {
        BigArrayImpl array = kairosDbs();
        assertEquals(head, array.getHeadIndex());
        assertEquals(tail, array.getTailIndex());
        for (long i = tail; i < head; i++) {
          assertArrayEquals(record(i, about), array.get(i));
          assertTrue(array.getTimestamp(i) > 0);
        }
        for (int i = 0; i < more; i++) {
          array.append(record(head, about));
          head++;
        }
        tail = Math.max(tail, head - 1 - keep);
        array.removeBeforeIndex(tail);
        if (closes) {
          array.close();
        }
      }
    }
  }

  @Test
  void recordsReachOverManyPagesOfTheIndex() throws IOException {
    int records = 300_000;
    try (QueueFile file = open()) {
      for (int i = 0; i < records; i++) {
        file.append(ByteBuffer.allocate(4).putInt(0, i).array());
      }
      assertEquals(3, pages("index"));
      for (int i = 0; i < records; i += 997) {
        assertEquals(i, ByteBuffer.wrap(file.read(i)).getInt());
      }
      file.removeBefore(records - 10);
      assertEquals(1, pages("index"));
      assertThrows(IndexOutOfBoundsException.class, () -> file.read(records - 11));
      assertThrows(IndexOutOfBoundsException.class, () -> file.read(records));
    }
    try (QueueFile file = open()) {
      assertEquals(records, file.append(new byte[0]));
      assertEquals(records - 1, ByteBuffer.wrap(file.read(records - 1)).getInt());
    }
  }

  @Test
  void whatDoesNotFitIntoAPageIsRefusedAndNothingHappened() throws IOException {
    try (QueueFile file = open()) {
      file.append(new byte[PAGE_BYTES]);
      assertThrows(IOException.class, () -> file.append(new byte[PAGE_BYTES + 1]));
      assertEquals(1, file.head());
      assertEquals(1, file.append(new byte[] {7}));
      assertArrayEquals(new byte[] {7}, file.read(1));
    }
  }

  @Test
  void aClosedFileIsNotTouched() throws IOException {
    QueueFile file = open();
    file.append(new byte[] {1});
    file.close();
    assertThrows(IOException.class, () -> file.append(new byte[] {2}));
    assertThrows(IOException.class, () -> file.read(0));
    assertThrows(IOException.class, () -> file.removeBefore(1));
  }
}
