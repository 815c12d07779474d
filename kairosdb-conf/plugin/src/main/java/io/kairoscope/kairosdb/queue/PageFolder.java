package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import sun.misc.Unsafe;

/** One folder of pages {@code page-N.dat}, as bigqueue has it: which there are, new and old ones. */
final class PageFolder {
  private static final Pattern PAGE = Pattern.compile("page-(\\d{1,18})\\.dat");
  private static final String UNFINISHED = ".unfinished";
  private static final ByteBuffer ZEROS = ByteBuffer.allocateDirect(1 << 20).asReadOnlyBuffer();
  private static final Unsafe UNSAFE = unsafe();

  private final Path folder;
  private final int pageBytes;
  private volatile int fills;

  /**
   * @param pageBytes size of new pages
   */
  PageFolder(Path folder, int pageBytes) {
    this.folder = folder;
    this.pageBytes = pageBytes;
  }

  private static Unsafe unsafe() {
    try {
      Field field = Unsafe.class.getDeclaredField("theUnsafe");
      field.setAccessible(true);
      return (Unsafe) field.get(null);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("this JVM cannot give memory-mapped pages back", error);
    }
  }

  Path folder() {
    return folder;
  }

  int pageBytes() {
    return pageBytes;
  }

  private Path path(long page) {
    return folder.resolve("page-" + page + ".dat");
  }

  /** The pages that there are, and their sizes in bytes. */
  TreeMap<Long, Long> sizes() throws IOException {
    TreeMap<Long, Long> sizes = new TreeMap<>();
    if (!Files.isDirectory(folder)) {
      return sizes;
    }
    try (Stream<Path> listed = Files.list(folder)) {
      for (Path file : listed.toList()) {
        Matcher name = PAGE.matcher(file.getFileName().toString());
        if (name.matches()) {
          sizes.put(Long.parseLong(name.group(1)), Files.size(file));
        }
      }
    }
    return sizes;
  }

  /**
   * Makes a page, of zeros that are written: so the disk has the room for what comes there. A page
   * that is only mapped has holes, and what is stored to a hole of a full disk is gone.
   *
   * @throws IOException if there is no room; then nothing has changed
   */
  void make(long page) throws IOException {
    Path unfinished = folder.resolve("page-" + page + UNFINISHED);
    try {
      try (FileChannel channel =
          FileChannel.open(
              unfinished,
              StandardOpenOption.WRITE,
              StandardOpenOption.CREATE,
              StandardOpenOption.TRUNCATE_EXISTING)) {
        for (long written = 0; written < pageBytes; ) {
          ByteBuffer zeros = ZEROS.duplicate();
          zeros.limit((int) Math.min(zeros.capacity(), pageBytes - written));
          written += channel.write(zeros);
        }
      }
      Files.move(unfinished, path(page), StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException noRoom) {
      Files.deleteIfExists(unfinished);
      throw noRoom;
    }
  }

  /**
   * Writes what a page has to where it has it, and zeros to where it ends early: so that it has no
   * holes, whoever made it.
   *
   * @throws IOException if there is no room; it still has what it had
   */
  void fill(long page) throws IOException {
    try (FileChannel channel =
        FileChannel.open(
            path(page),
            StandardOpenOption.READ,
            StandardOpenOption.WRITE,
            StandardOpenOption.CREATE)) {
      ByteBuffer chunk = ByteBuffer.allocate(ZEROS.capacity());
      for (long at = 0; at < pageBytes; at += chunk.limit()) {
        chunk.clear().limit((int) Math.min(chunk.capacity(), pageBytes - at));
        Arrays.fill(chunk.array(), (byte) 0);
        while (chunk.hasRemaining() && channel.read(chunk, at + chunk.position()) > 0) {
          // until the chunk is full, or the file at its end
        }
        chunk.rewind();
        while (chunk.hasRemaining()) {
          channel.write(chunk, at + chunk.position());
        }
      }
    }
    fills++;
  }

  /** How many pages were filled: one that was mapped before may have ended early. */
  int fills() {
    return fills;
  }

  /** A page to write to, which {@link #make} or {@link #fill} made. */
  MappedByteBuffer forWriting(long page) throws IOException {
    return map(page, FileChannel.MapMode.READ_WRITE);
  }

  /** A page to read, as large as it is; null if there is none. */
  MappedByteBuffer forReading(long page) throws IOException {
    try {
      return map(page, FileChannel.MapMode.READ_ONLY);
    } catch (NoSuchFileException gone) {
      // There never was one, or it was given back a moment ago, by another thread.
      return null;
    }
  }

  private MappedByteBuffer map(long page, FileChannel.MapMode mode) throws IOException {
    boolean writes = mode == FileChannel.MapMode.READ_WRITE;
    try (FileChannel channel =
        writes
            ? FileChannel.open(path(page), StandardOpenOption.READ, StandardOpenOption.WRITE)
            : FileChannel.open(path(page), StandardOpenOption.READ)) {
      return channel.map(mode, 0, channel.size());
    }
  }

  /** Gives memory back now, and not when the collector comes by. It must not be touched again. */
  static void release(MappedByteBuffer page) {
    UNSAFE.invokeCleaner(page);
  }

  void delete(long page) throws IOException {
    Files.deleteIfExists(path(page));
  }

  /** Brings names of new pages to the disk. */
  void forceNames() throws IOException {
    forceNames(folder);
  }

  /** Brings the names that a folder has to the disk. */
  static void forceNames(Path folder) throws IOException {
    try (FileChannel names = FileChannel.open(folder, StandardOpenOption.READ)) {
      names.force(true);
    }
  }
}
