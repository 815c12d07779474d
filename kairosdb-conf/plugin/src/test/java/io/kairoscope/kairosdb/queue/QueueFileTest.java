package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kairoscope.kairosdb.queue.QueueFile.Limits;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.bigqueue.BigArrayImpl;

/** The queue's file: its pages and bounds, its ends, and KairosDB's own of it. */
class QueueFileTest {
  private static final int PAGE_BYTES = BigArrayImpl.MINIMUM_DATA_PAGE_SIZE;
  private static final int SMALL_PAGE = 10_000;

  @TempDir Path folder;

  private QueueFile open() throws IOException {
    return open(PAGE_BYTES, Limits.NONE);
  }

  private QueueFile open(int pageBytes, Limits limits) throws IOException {
    return new QueueFile(folder, pageBytes, limits, false);
  }

  /** KairosDB's own, as its modules open it. */
  private BigArrayImpl kairosDbs() throws IOException {
    return new BigArrayImpl(folder.toString(), "kairos_queue", PAGE_BYTES);
  }

  /** Of a size that says which one it is, too. */
  private static byte[] record(long index, int about) {
    byte[] bytes = new byte[about + (int) (index % 100)];
    new Random(index).nextBytes(bytes);
    return bytes;
  }

  private static long append(QueueFile file, byte[] bytes) throws IOException {
    return file.append(bytes, 0, bytes.length, 0, System.currentTimeMillis());
  }

  private static byte[] read(QueueFile file, long record) throws IOException {
    try (QueueReader reader = file.reader()) {
      assertTrue(reader.load(record), "not whole: " + record);
      return Arrays.copyOf(reader.bytes(), reader.length());
    }
  }

  private long pages(String kind) throws IOException {
    try (Stream<Path> files = Files.list(folder.resolve("kairos_queue").resolve(kind))) {
      return files.count();
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
      int keep = random.nextInt(60);
      if (ours) {
        try (QueueFile file = open()) {
          assertEquals(head, file.head());
          // KairosDB's own puts its tail to disk with the next record only.
          assertTrue(file.tail() <= tail);
          assertEquals(0, file.unreadable());
          for (long i = tail; i < head; i++) {
            assertArrayEquals(record(i, about), read(file, i));
          }
          for (int i = 0; i < more; i++) {
            assertEquals(head, append(file, record(head, about)));
            head++;
          }
          tail = Math.max(tail, head - 1 - keep);
          file.removeBefore(tail);
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
        // Closed well in some turns, killed in the others.
        if (turn % 3 != 0) {
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
        append(file, ByteBuffer.allocate(4).putInt(0, i).array());
      }
      assertEquals(3, pages("index"));
      for (int i = 0; i < records; i += 997) {
        assertEquals(i, ByteBuffer.wrap(read(file, i)).getInt());
      }
      assertTrue(file.removeBefore(records - 10));
      assertEquals(1, pages("index"));
      assertFalse(file.reader().load(5), "a page that is gone");
      assertFalse(file.reader().load(records), "nothing yet");
    }
    try (QueueFile file = open()) {
      assertEquals(0, file.unreadable());
      assertEquals(records - 10, file.tail());
      assertEquals(records, append(file, new byte[] {1}));
      assertEquals(records - 1, ByteBuffer.wrap(read(file, records - 1)).getInt());
    }
  }

  @Test
  void whatDoesNotFitIntoAPageIsRefusedAndNothingHappened() throws IOException {
    try (QueueFile file = open(SMALL_PAGE, Limits.NONE)) {
      append(file, new byte[SMALL_PAGE]);
      assertThrows(IOException.class, () -> append(file, new byte[SMALL_PAGE + 1]));
      assertEquals(1, file.head());
      assertEquals(1, append(file, new byte[] {7}));
      assertArrayEquals(new byte[] {7}, read(file, 1));
    }
  }

  @Test
  void aClosedFileIsNotTouched() throws IOException {
    QueueFile file = open();
    append(file, new byte[] {1});
    file.close();
    file.close();
    assertThrows(IOException.class, () -> append(file, new byte[] {2}));
    assertThrows(IOException.class, () -> file.removeBefore(1));
    assertThrows(IOException.class, file::force);
    file.prepare();
  }

  @Test
  void twoDoNotHaveIt() throws IOException {
    try (QueueFile file = open()) {
      IOException refused = assertThrows(IOException.class, this::open);
      assertTrue(refused.getMessage().contains("in use by another process"), refused.toString());
      append(file, new byte[] {1});
    }
    open().close();
  }

  @Test
  void theRoomOfAPageIsTakenBeforeItIsWrittenTo() throws IOException {
    try (QueueFile file = open()) {
      append(file, new byte[] {1});
      file.prepare();
      for (String kind : new String[] {"data", "index"}) {
        assertTrue(allocatedKib(kind, 0) >= sizeKib(kind, 0), kind + " has holes");
      }
    }
  }

  private Path page(String kind, long page) {
    return folder.resolve("kairos_queue").resolve(kind).resolve("page-" + page + ".dat");
  }

  private long sizeKib(String kind, long page) throws IOException {
    return Files.size(page(kind, page)) / 1024;
  }

  private long allocatedKib(String kind, long page) throws IOException {
    Process du = new ProcessBuilder("du", "-k", page(kind, page).toString()).start();
    String said = new String(du.getInputStream().readAllBytes());
    return Long.parseLong(said.split("\\s")[0]);
  }

  /** KairosDB's own queue leaves pages with holes; into the index, which goes on, we would write. */
  @Test
  void pagesOfKairosDbsOwnHaveNoHolesWhereWeWrite() throws IOException {
    BigArrayImpl array = kairosDbs();
    array.append(new byte[100]);
    array.close();
    assertTrue(allocatedKib("index", 0) < sizeKib("index", 0), "there are none: no test");
    try (QueueFile file = open()) {
      append(file, new byte[] {1});
      assertTrue(allocatedKib("index", 0) >= sizeKib("index", 0));
      assertTrue(allocatedKib("data", 1) >= sizeKib("data", 1), "and not into the old page");
      assertArrayEquals(new byte[100], read(file, 0));
    }
  }

  @Test
  void thereIsAPageAhead() throws IOException {
    try (QueueFile file = open(SMALL_PAGE, Limits.NONE)) {
      append(file, new byte[SMALL_PAGE / 2 + 1]);
      assertEquals(1, pages("data"));
      file.prepare();
      assertEquals(2, pages("data"));
      file.prepare();
      assertEquals(2, pages("data"));
    }
  }

  @Test
  void beyondItsBoundNothingIsTakenAndNothingHappened() throws IOException {
    Limits limits = new Limits(3L * (IndexItem.PAGE_BYTES + SMALL_PAGE), 0);
    try (QueueFile file = open(SMALL_PAGE, limits)) {
      int taken = 0;
      IOException full = null;
      assertThrows(IOException.class, () -> open(SMALL_PAGE, new Limits(SMALL_PAGE, 0)));
      while (full == null) {
        try {
          append(file, record(taken, 900));
          taken++;
        } catch (IOException error) {
          full = error;
        }
      }
      assertTrue(full.getMessage().contains("bound"), full.toString());
      assertEquals(taken, file.head());
      assertThrows(IOException.class, file::prepare);
      for (int i = 0; i < taken; i++) {
        assertArrayEquals(record(i, 900), read(file, i));
      }
      // What is stored makes room.
      file.removeBefore(taken - 1);
      assertEquals(taken, append(file, record(taken, 900)));
    }
  }

  @Test
  void whatMustStayFreeOfTheDiskStaysFree() throws IOException {
    long free = Files.getFileStore(folder).getUsableSpace();
    try (QueueFile file = open(SMALL_PAGE, new Limits(Long.MAX_VALUE, 2 * free))) {
      IOException full =
          assertThrows(IOException.class, () -> append(file, new byte[] {1}));
      assertTrue(full.getMessage().contains("no room"), full.toString());
      assertEquals(0, file.head());
    }
  }

  @Test
  void whatIsForcedIsKnown() throws IOException {
    try (QueueFile file = new QueueFile(folder, SMALL_PAGE, Limits.NONE, true)) {
      assertEquals(0, file.force());
      for (int i = 0; i < 100; i++) {
        append(file, record(i, 900));
      }
      assertEquals(100, file.force());
      append(file, record(100, 900));
      assertEquals(101, file.force());
    }
  }

  /** As the kernel has it: of no page that was written to has memory more than the disk. */
  @Test
  void whatIsForcedIsOnTheDisk(@TempDir(factory = OnDisk.class) Path onDisk) throws IOException {
    OnDisk.assumed(onDisk);
    try (QueueFile file = new QueueFile(onDisk, SMALL_PAGE, Limits.NONE, true)) {
      long record = 0;
      long most = 0;
      for (int turn = 0; turn < 40; turn++) {
        // Of most turns some pages become full, and are let go of.
        for (int more = new Random(turn).nextInt(30) + 1; more > 0; more--) {
          append(file, record(record++, 900));
        }
        most = Math.max(most, unwritten(onDisk));
        assertEquals(record, file.force());
        assertEquals(0, unwritten(onDisk), "turn " + turn);
      }
      assertTrue(most > 0, "the kernel wrote all of it by itself");
    }
  }

  /** KiB of the queue's pages that memory has and the disk has not; see proc(5), smaps. */
  static long unwritten(Path folder) throws IOException {
    List<MappedByteBuffer> looked = new ArrayList<>();
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path page : files.filter(path -> path.toString().endsWith(".dat")).toList()) {
        try (FileChannel channel = FileChannel.open(page)) {
          MappedByteBuffer mapped =
              channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
          mapped.load();
          looked.add(mapped);
        }
      }
    }
    long dirty = 0;
    boolean ours = false;
    for (String line : Files.readAllLines(Path.of("/proc/self/smaps"))) {
      String[] words = line.split(" +");
      if (words[0].contains("-")) {
        ours = line.contains(folder.toString()) && words[1].equals("r--s");
      } else if (ours && words[0].endsWith("_Dirty:")) {
        dirty += Long.parseLong(words[1]);
      }
    }
    looked.forEach(PageFolder::release);
    return dirty;
  }

  /** Else the disk fills with pages that nobody sees, as what is mapped keeps its room. */
  @Test
  void whatIsRemovedBeforeItWasForcedLeavesNothingBehind() throws IOException {
    try (QueueFile file = new QueueFile(folder, SMALL_PAGE, Limits.NONE, true)) {
      for (int i = 0; i < 60; i++) {
        append(file, record(i, 900));
      }
      assertTrue(pages("data") > 3);
      assertTrue(file.removeBefore(59));
      assertEquals(1, pages("data"));
      assertEquals(List.of(), mappedThoughDeleted());
      assertEquals(60, file.force());
    }
  }

  private List<String> mappedThoughDeleted() throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines
          .filter(line -> line.contains(folder.toString()) && line.endsWith("(deleted)"))
          .toList();
    }
  }

  /** It is unmapped by the next: else the disk seems to fail, and no request is taken any more. */
  @Test
  void whatIsRemovedWhileItIsForcedStaysMappedForThat() throws IOException {
    try (QueueFile file = new QueueFile(folder, SMALL_PAGE, Limits.NONE, true)) {
      append(file, record(0, 900));
      int records = IndexItem.PER_PAGE + 100;
      file.whileForcing =
          () -> {
            file.whileForcing = () -> {};
            try {
              for (int i = 1; i < records; i++) {
                append(file, new byte[10]);
              }
              assertTrue(file.removeBefore(records - 1));
            } catch (IOException error) {
              throw new AssertionError(error);
            }
          };
      assertEquals(1, file.force());
      assertEquals(1, pages("data"));
      assertEquals(1, pages("index"));
      assertEquals(2, mappedThoughDeleted().size(), "of data and of the index");
      assertEquals(records, file.force());
      assertEquals(List.of(), mappedThoughDeleted());
    }
  }

  /** What the disk made of it must not be taken for the oldest page that is needed. */
  @Test
  void anItemThatIsNoiseTakesNoPagesAlong() throws IOException {
    try (QueueFile file = open(SMALL_PAGE, Limits.NONE)) {
      for (int i = 0; i < 100; i++) {
        append(file, record(i, 500));
      }
      Path index = folder.resolve("kairos_queue").resolve("index").resolve("page-0.dat");
      try (FileChannel channel = FileChannel.open(index, StandardOpenOption.WRITE)) {
        channel.write(ByteBuffer.allocate(8).putLong(0, 1L << 40), 50L * IndexItem.BYTES);
      }
      long there = pages("data");
      file.removeBefore(50);
      assertEquals(there, pages("data"));
      assertArrayEquals(record(99, 500), read(file, 99));
      file.removeBefore(90);
      assertTrue(pages("data") < there);
    }
  }
}
