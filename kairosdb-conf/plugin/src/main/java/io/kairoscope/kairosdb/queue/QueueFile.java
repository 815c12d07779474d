package io.kairoscope.kairosdb.queue;

import java.io.Closeable;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import sun.misc.Unsafe;

/**
 * The queue's file, in the format of KairosDB's own (BigArrayImpl of bigqueue 1.0.1), so that either
 * queue processor goes on where the other was.
 *
 * <p>Not that class itself: for each append it looks a metric up by reflection, and three pages in
 * caches with locks. Here the pages that are written to are at hand.
 *
 * <p>A folder each for {@code data} (the records, one after the other), {@code index} (for each
 * record 32 bytes: data page, offset, length, time) and {@code meta_data} (head and tail), of pages
 * {@code page-N.dat} that are mapped into memory: what is written there survives the process.
 */
final class QueueFile implements PointFile, Closeable {
  private static final String NAME = "kairos_queue";
  private static final int ITEMS_PER_PAGE = 1 << 17;
  private static final int ITEM_BYTES = 32;
  private static final int LENGTH_AT = 12;
  private static final int TIME_AT = 16;
  private static final int META_BYTES = 16;
  private static final int TAIL_AT = 8;
  // The page that is written to, that which is read back, and one more between two pages.
  private static final int PAGES_AT_HAND = 3;

  private final Pages data;
  private final Pages index;
  private final ByteBuffer meta;
  private final Pages metas;
  private final LongSupplier nowMs;
  private long dataPage;
  private int dataOffset;
  private volatile long head;
  private volatile long tail;
  private boolean closed;

  /**
   * Opens the file, or makes it.
   *
   * @param pageBytes size of a page of data; a record must fit into one
   */
  QueueFile(Path folder, int pageBytes, LongSupplier nowMs) throws IOException {
    this.nowMs = nowMs;
    Path file = folder.resolve(NAME);
    data = new Pages(file.resolve("data"), pageBytes);
    index = new Pages(file.resolve("index"), ITEMS_PER_PAGE * ITEM_BYTES);
    metas = new Pages(file.resolve("meta_data"), META_BYTES);
    meta = metas.forWriting(0);
    head = meta.getLong(0);
    tail = meta.getLong(TAIL_AT);
    ByteBuffer last = head > tail ? index.forReading((head - 1) / ITEMS_PER_PAGE) : null;
    if (last == null) {
      dataPage = data.next();
    } else {
      int item = item(head - 1);
      dataPage = last.getLong(item);
      dataOffset = last.getInt(item + Long.BYTES) + last.getInt(item + LENGTH_AT);
    }
  }

  private static int item(long record) {
    return (int) (record % ITEMS_PER_PAGE) * ITEM_BYTES;
  }

  @Override
  public synchronized long append(byte[] bytes) throws IOException {
    checkOpen();
    if (bytes.length > data.pageBytes) {
      throw new IOException(
          "a record of " + bytes.length + " bytes does not fit into a page of the queue file");
    }
    long page = dataPage;
    int offset = dataOffset;
    if (offset + bytes.length > data.pageBytes) {
      page++;
      offset = 0;
    }
    long record = head;
    // Both before anything is written: when the disk is full nothing has happened.
    ByteBuffer dataBuffer = data.forWriting(page);
    ByteBuffer indexBuffer = index.forWriting(record / ITEMS_PER_PAGE);
    dataBuffer.put(offset, bytes);
    int item = item(record);
    indexBuffer.putLong(item, page);
    indexBuffer.putInt(item + Long.BYTES, offset);
    indexBuffer.putInt(item + LENGTH_AT, bytes.length);
    indexBuffer.putLong(item + TIME_AT, nowMs.getAsLong());
    dataPage = page;
    dataOffset = offset + bytes.length;
    // Last: what is before the head is whole.
    meta.putLong(0, record + 1);
    head = record + 1;
    return record;
  }

  /** The record; empty where its page is gone, which is only below the tail that is meant. */
  @Override
  public synchronized byte[] read(long record) throws IOException {
    checkOpen();
    ByteBuffer indexBuffer = indexOf(record);
    if (indexBuffer == null) {
      return new byte[0];
    }
    int item = item(record);
    ByteBuffer dataBuffer = data.forReading(indexBuffer.getLong(item));
    if (dataBuffer == null) {
      return new byte[0];
    }
    byte[] bytes = new byte[indexBuffer.getInt(item + LENGTH_AT)];
    dataBuffer.get(indexBuffer.getInt(item + Long.BYTES), bytes);
    return bytes;
  }

  @Override
  public synchronized long appendedAt(long record) throws IOException {
    checkOpen();
    ByteBuffer indexBuffer = indexOf(record);
    return indexBuffer == null ? 0 : indexBuffer.getLong(item(record) + TIME_AT);
  }

  private ByteBuffer indexOf(long record) throws IOException {
    if (record < tail || record >= head) {
      throw new IndexOutOfBoundsException("record " + record + " of " + tail + " to " + head);
    }
    return index.forReading(record / ITEMS_PER_PAGE);
  }

  @Override
  public long head() {
    return head;
  }

  @Override
  public long tail() {
    return tail;
  }

  /** Moves the tail, but not past the last record: KairosDB's own finds its place by that one. */
  @Override
  public synchronized void removeBefore(long record) throws IOException {
    checkOpen();
    long before = Math.min(record, head - 1);
    if (before <= tail) {
      return;
    }
    ByteBuffer indexBuffer = indexOf(before);
    // First the tail: what is killed now leaves pages that nobody reads, and not a gap.
    meta.putLong(TAIL_AT, before);
    tail = before;
    if (indexBuffer != null) {
      data.removeBefore(indexBuffer.getLong(item(before)));
    }
    index.removeBefore(before / ITEMS_PER_PAGE);
  }

  /** What is mapped no longer must not be touched: the process would end. */
  private void checkOpen() throws IOException {
    if (closed) {
      throw new IOException("the queue file is closed");
    }
  }

  @Override
  public synchronized void close() {
    closed = true;
    data.close();
    index.close();
    metas.close();
  }

  /** The pages of one folder. */
  private static final class Pages {
    private static final Pattern PAGE = Pattern.compile("page-(\\d+)\\.dat");
    private static final Unsafe UNSAFE = unsafe();

    private final Path folder;
    private final int pageBytes;
    /** Those in memory, the longest unused first. */
    private final Map<Long, MappedByteBuffer> atHand = new LinkedHashMap<>(4, 0.75f, true);

    // Beside the map, which takes a hash and a box for each record.
    private long lastPage = -1;
    private MappedByteBuffer last;
    // Whether there may be pages to be removed: listing a folder is dear.
    private long removedBefore;

    Pages(Path folder, int pageBytes) throws IOException {
      this.folder = folder;
      this.pageBytes = pageBytes;
      Files.createDirectories(folder);
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

    private Path file(long page) {
      return folder.resolve("page-" + page + ".dat");
    }

    ByteBuffer forWriting(long page) throws IOException {
      MappedByteBuffer found = get(page);
      return found != null ? found : map(page);
    }

    /** Null if there is no such page. */
    ByteBuffer forReading(long page) throws IOException {
      MappedByteBuffer found = get(page);
      return found != null || !Files.exists(file(page)) ? found : map(page);
    }

    private MappedByteBuffer get(long page) {
      if (page != lastPage) {
        MappedByteBuffer found = atHand.get(page);
        if (found == null) {
          return null;
        }
        last = found;
        lastPage = page;
      }
      return last;
    }

    private MappedByteBuffer map(long page) throws IOException {
      Path file = file(page);
      boolean isNew = !Files.exists(file);
      // A page that the disk has no room for would end the process when it is written to.
      if (isNew && Files.getFileStore(folder).getUsableSpace() < pageBytes) {
        throw new IOException("no space for another page of the queue file in " + folder);
      }
      MappedByteBuffer mapped;
      try (FileChannel channel =
          FileChannel.open(
              file,
              StandardOpenOption.READ,
              StandardOpenOption.WRITE,
              StandardOpenOption.CREATE)) {
        mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, pageBytes);
      }
      atHand.put(page, mapped);
      last = mapped;
      lastPage = page;
      Iterator<Map.Entry<Long, MappedByteBuffer>> oldest = atHand.entrySet().iterator();
      while (atHand.size() > PAGES_AT_HAND) {
        release(oldest.next().getValue());
        oldest.remove();
      }
      return mapped;
    }

    /** Gives memory and disk back now, and not when the collector comes by. */
    private void release(MappedByteBuffer page) {
      if (page == last) {
        last = null;
        lastPage = -1;
      }
      UNSAFE.invokeCleaner(page);
    }

    /** The number after that of the last page; 0 if there is none. */
    long next() throws IOException {
      long next = 0;
      for (long page : files().keySet()) {
        next = Math.max(next, page + 1);
      }
      return next;
    }

    private Map<Long, Path> files() throws IOException {
      Map<Long, Path> files = new LinkedHashMap<>();
      try (Stream<Path> listed = Files.list(folder)) {
        for (Path file : listed.toList()) {
          Matcher name = PAGE.matcher(file.getFileName().toString());
          if (name.matches()) {
            files.put(Long.parseLong(name.group(1)), file);
          }
        }
      }
      return files;
    }

    void removeBefore(long page) throws IOException {
      if (page <= removedBefore) {
        return;
      }
      for (long old : new ArrayList<>(atHand.keySet())) {
        if (old < page) {
          release(atHand.remove(old));
        }
      }
      for (Map.Entry<Long, Path> file : files().entrySet()) {
        if (file.getKey() < page) {
          Files.delete(file.getValue());
        }
      }
      removedBefore = page;
    }

    void close() {
      for (MappedByteBuffer page : atHand.values()) {
        page.force();
        release(page);
      }
      atHand.clear();
    }
  }
}
