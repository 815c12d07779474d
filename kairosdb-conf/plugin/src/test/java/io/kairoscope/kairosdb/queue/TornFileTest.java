package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kairoscope.kairosdb.queue.QueueFile.Limits;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Copies of a file that are cut off, zeroed and overwritten at random places, as a loss of power
 * leaves them: what is whole is read back, what is not is counted, nothing else comes back, and what
 * is appended then harms none of it.
 */
class TornFileTest {
  private static final int RUNS = 250;
  private static final int PAGE_BYTES = 40_000;

  @TempDir Path folder;
  private final Random random = new Random(7);

  private static byte[] record(long index) {
    byte[] bytes = new byte[60 + (int) (index % 40)];
    new Random(index + 1).nextBytes(bytes);
    return bytes;
  }

  private static void append(QueueFile file, long index) throws IOException {
    byte[] bytes = record(index);
    assertEquals(index, file.append(bytes, 0, bytes.length, 7, 1_000 + index));
  }

  private static Map<Long, byte[]> whole(QueueFile file) throws IOException {
    Map<Long, byte[]> whole = new TreeMap<>();
    try (QueueReader reader = file.reader()) {
      // Whatever is torn or gone of them.
      long[] all = LongStream.range(Math.max(0, file.tail() - 5), file.head() + 5).toArray();
      reader.expect(all, all.length);
      for (long index = file.tail(); index < file.head(); index++) {
        if (reader.load(index)) {
          whole.put(index, Arrays.copyOf(reader.bytes(), reader.length()));
        }
      }
    }
    return whole;
  }

  private static Path copy(Path from, Path to) throws IOException {
    try (Stream<Path> all = Files.walk(from)) {
      for (Path each : all.toList()) {
        Path target = to.resolve(from.relativize(each).toString());
        if (Files.isDirectory(each)) {
          Files.createDirectories(target);
        } else {
          Files.copy(each, target);
        }
      }
    }
    return to;
  }

  /** Some of what the disk had not written, or wrote wrong. */
  private int damage(Path copy) throws IOException {
    List<Path> files;
    try (Stream<Path> all = Files.walk(copy)) {
      files = new ArrayList<>(all.filter(path -> path.toString().endsWith(".dat")).toList());
    }
    int damages = 1 + random.nextInt(4);
    for (int i = 0; i < damages; i++) {
      Path file = files.get(random.nextInt(files.size()));
      if (!Files.exists(file)) {
        continue;
      }
      try (RandomAccessFile open = new RandomAccessFile(file.toFile(), "rw")) {
        long size = open.length();
        // The index is mostly empty: where it has something is of interest.
        long used = file.toString().contains("index") ? Math.min(size, 100_000) : size;
        long at = used == 0 ? 0 : random.nextLong(used);
        switch (random.nextInt(5)) {
          case 0 -> open.setLength(at);
          case 1 -> write(open, at / 4096 * 4096, new byte[4096]);
          case 2 -> write(open, at, new byte[1 + random.nextInt(3_000)]);
          case 3 -> {
            byte[] noise = new byte[1 + random.nextInt(100)];
            random.nextBytes(noise);
            write(open, at, noise);
          }
          default -> {
            // A first page that is gone was removed as all of it was stored.
            try (Stream<Path> beside = Files.list(file.getParent())) {
              if (!beside.min(Comparator.comparing(TornFileTest::page)).get().equals(file)) {
                Files.delete(file);
              }
            }
          }
        }
      }
    }
    return damages;
  }

  /** Head and tail, in bytes. */
  private static byte[] meta(Path of) throws IOException {
    Path file = of.resolve("kairos_queue/meta_data/page-0.dat");
    return Files.exists(file) ? Files.readAllBytes(file) : new byte[0];
  }

  private static int page(Path file) {
    return Integer.parseInt(file.getFileName().toString().replaceAll("\\D", ""));
  }

  private static void write(RandomAccessFile file, long at, byte[] bytes) throws IOException {
    long room = Math.max(0, file.length() - at);
    file.seek(at);
    file.write(bytes, 0, (int) Math.min(room, bytes.length));
  }

  @Test
  void whatIsWholeComesBackAndNothingElse() throws IOException {
    Path original = folder.resolve("original");
    long tail;
    long head = 0;
    // Killed: copied while it is open.
    try (QueueFile file = new QueueFile(original, PAGE_BYTES, Limits.NONE, false)) {
      while (head < 2_500) {
        append(file, head++);
      }
      file.removeBefore(700);
      tail = file.tail();
      int losses = 0;
      for (int run = 0; run < RUNS; run++) {
        Path copy = copy(original, folder.resolve("copy"));
        damage(copy);
        boolean noted = Arrays.equals(meta(original), meta(copy));
        losses += check(copy, tail, head, noted, "run " + run);
        delete(copy);
      }
      assertTrue(losses > RUNS, "the damage was none: " + losses);
    }
  }

  @Test
  void whatIsMissingBetweenWholeRecordsIsCountedWhateverTheNotedHead() throws IOException {
    Path original = folder.resolve("original");
    try (QueueFile file = new QueueFile(original, PAGE_BYTES, Limits.NONE, false)) {
      Path noted = copy(original.resolve("kairos_queue/meta_data"), folder.resolve("noted"));
      for (long index = 0; index < 100; index++) {
        append(file, index);
      }
      // The disk had the records, and of head and tail what they were before: nothing is there.
      Path copy = copy(original, folder.resolve("copy"));
      delete(copy.resolve("kairos_queue/meta_data"));
      copy(noted, copy.resolve("kairos_queue/meta_data"));
      Path index = copy.resolve("kairos_queue/index/page-0.dat");
      try (RandomAccessFile open = new RandomAccessFile(index.toFile(), "rw")) {
        write(open, 40 * 32, new byte[5 * 32]);
        write(open, 97 * 32, new byte[3 * 32]);
      }
      try (QueueFile torn = new QueueFile(copy, PAGE_BYTES, Limits.NONE, false)) {
        assertEquals(97, torn.head());
        assertEquals(92, whole(torn).size());
        assertEquals(5, torn.unreadable(), "of the last three nobody knows");
      }
    }
  }

  /** As when the disk is full at the start, so that the page cannot be made whole before. */
  @Test
  void aReaderThatSawAPageEndEarlyReadsWhatIsAppendedToIt() throws IOException {
    try (QueueFile file = new QueueFile(folder, PAGE_BYTES, Limits.NONE, false)) {
      for (long index = 0; index < 100; index++) {
        append(file, index);
      }
    }
    Path page = folder.resolve("kairos_queue/index/page-0.dat");
    try (RandomAccessFile open = new RandomAccessFile(page.toFile(), "rw")) {
      open.setLength(100 * IndexItem.BYTES);
    }
    try (QueueFile file = new QueueFile(folder, PAGE_BYTES, Limits.NONE, false);
        QueueReader reader = file.reader();
        QueueReader expecting = file.reader()) {
      assertEquals(100, file.head());
      assertTrue(reader.load(99));
      assertTrue(expecting.load(99));
      assertFalse(reader.load(100));
      for (long index = 100; index < 200; index++) {
        append(file, index);
      }
      assertTrue(reader.load(100), "it is given up, and was acknowledged");
      assertTrue(reader.load(199));
      assertTrue(reader.load(99));
      expecting.expect(new long[] {99, 100, 199}, 3);
      assertTrue(expecting.load(199));
    }
  }

  /**
   * @param noted whether head and tail are as they were noted
   */
  private int check(Path copy, long tail, long head, boolean noted, String run)
      throws IOException {
    Map<Long, byte[]> found;
    long unreadable;
    long newHead;
    try (QueueFile file = new QueueFile(copy, PAGE_BYTES, Limits.NONE, false)) {
      found = whole(file);
      unreadable = file.unreadable();
      found.forEach((index, bytes) -> assertArrayEquals(record(index), bytes, run));
      long lost = 0;
      for (long index = tail; index < head; index++) {
        lost += found.containsKey(index) ? 0 : 1;
      }
      // Where head and tail are lost, too, nobody knows how many there were at the end.
      assertTrue(unreadable <= head && (lost == 0 || unreadable > 0 || file.head() < head), run);
      // Of what comes before all that is whole, nobody knows whether it was stored.
      long first = found.keySet().stream().findFirst().orElse(head);
      long behind = LongStream.range(first, head).filter(i -> !found.containsKey(i)).count();
      assertTrue(!noted || unreadable >= behind, run + ": " + unreadable + " of " + behind);
      newHead = file.head();
      for (int i = 0; i < 1_000; i++) {
        append(file, newHead + i);
      }
    }
    // Nothing of what was whole is written over, whatever the index had lost.
    try (QueueFile file = new QueueFile(copy, PAGE_BYTES, Limits.NONE, false)) {
      Map<Long, byte[]> again = whole(file);
      found.forEach((index, bytes) -> assertArrayEquals(bytes, again.get(index), run));
      for (int i = 0; i < 1_000; i++) {
        assertArrayEquals(record(newHead + i), again.get(newHead + i), run);
      }
    }
    return (int) (head - tail - found.size());
  }

  private static void delete(Path folder) throws IOException {
    try (Stream<Path> all = Files.walk(folder)) {
      for (Path each : all.sorted((a, b) -> b.compareTo(a)).toList()) {
        Files.delete(each);
      }
    }
  }
}
