package io.kairoscope.kairosdb.queue;

import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;

/**
 * The queue's file, in the format of KairosDB's own (BigArrayImpl of bigqueue 1.0.1), so that either
 * queue processor goes on where the other was; with a checksum for each record, which that one does
 * not see.
 *
 * <p>A folder each for {@code data} (the records, one after the other), {@code index} ({@link
 * IndexItem}s) and {@code meta_data} (head and tail), of pages {@code page-N.dat}. Pages that are
 * written to are mapped into memory: what is written there survives the process, and with {@link
 * #force} a loss of power. Their room on the disk is taken before that, a page ahead.
 *
 * <p>What a start finds is not trusted: the end is where the last whole record is, and nothing is
 * ever written to a page of data from before.
 */
final class QueueFile implements PointFile, Closeable {
  static final String NAME = "kairos_queue";
  // What is left by QueueTool when it is ended in the middle of a drop: the folder in which it
  // writes the queue anew, what takes the place of the queue, whole from when it is there, and what
  // that replaces.
  static final String OTHERS = NAME + "-others";
  static final String KEPT = NAME + "-kept";
  static final String REPLACED = NAME + "-replaced";
  private static final int META_BYTES = 16;
  private static final int TAIL_AT = 8;
  private static final int PAGES_AT_LEAST = 3;

  private final Path folder;
  private final Limits limits;
  private final boolean forced;
  private final FileChannel lockFile;
  private final FileLock lock;
  private final PageFolder data;
  private final PageFolder index;
  private final MappedByteBuffer meta;
  private final IndexItem item = new IndexItem();

  // Pages that there are, with their sizes; their own lock, as making one takes its time.
  private final TreeMap<Long, Long> dataPages;
  private final TreeMap<Long, Long> indexPages;
  // Of the index, pages from before: who knows how they were made, and they may have holes.
  private final Set<Long> unfilled;
  private final Object pages = new Object();

  // That are written to; null before the first record.
  private MappedByteBuffer dataBuffer;
  private long dataPage;
  private int dataOffset;
  private MappedByteBuffer indexBuffer;
  private long indexPage = -1;
  // Written, no longer written to, and not yet forced.
  private List<Full> full = new ArrayList<>();
  private final Object forcing = new Object();
  // That force() has in hand: they stay mapped until it is done, also when they are full meanwhile.
  private MappedByteBuffer forcedData;
  private MappedByteBuffer forcedIndex;
  // Run by force() without the lock, for what tests have happen meanwhile.
  Runnable whileForcing = () -> {};

  private volatile long head;
  private volatile long tail;
  private long unreadable;
  private long lastTakenAt;
  private boolean closed;

  /**
   * How much room it may take.
   *
   * @param bytes of all its pages
   * @param freeBytes what it leaves of the disk
   */
  record Limits(long bytes, long freeBytes) {
    static final Limits NONE = new Limits(Long.MAX_VALUE, 0);
  }

  /** A page that no longer is written to. */
  private record Full(PageFolder kind, long page, MappedByteBuffer buffer) {}

  /**
   * Opens the file, or makes it.
   *
   * @param pageBytes size of a page of data; a record must fit into one
   * @param forced whether {@link #force} will be called; else pages are let go of when they are full
   * @throws IOException if another process has it, or it cannot be read or made
   */
  QueueFile(Path parent, int pageBytes, Limits limits, boolean forced) throws IOException {
    this.limits = limits;
    this.forced = forced;
    // The page of the oldest record, that which is written to, and the one ahead.
    long least = PAGES_AT_LEAST * ((long) pageBytes + IndexItem.PAGE_BYTES);
    if (limits.bytes < least) {
      throw new IOException(
          "the queue's files need a bound of " + ((least >> 20) + 1) + " MiB or more");
    }
    folder = parent.resolve(NAME);
    endDrop(parent);
    boolean isNew = !Files.exists(folder);
    data = new PageFolder(folder.resolve("data"), pageBytes);
    index = new PageFolder(folder.resolve("index"), IndexItem.PAGE_BYTES);
    PageFolder metas = new PageFolder(folder.resolve("meta_data"), META_BYTES);
    for (PageFolder each : List.of(data, index, metas)) {
      Files.createDirectories(each.folder());
    }
    lockFile =
        FileChannel.open(
            folder.resolve("lock"), StandardOpenOption.WRITE, StandardOpenOption.CREATE);
    lock = lock();
    if (!isNew) {
      // Of a drop that did not come to replace it, or did.
      QueueTool.delete(parent.resolve(OTHERS));
      QueueTool.delete(parent.resolve(KEPT));
      QueueTool.delete(parent.resolve(REPLACED));
    }
    metas.fill(0);
    if (forced) {
      // Pages are worth nothing on the disk if it has not what leads to them.
      for (Path each : List.of(metas.folder(), folder, parent)) {
        PageFolder.forceNames(each);
      }
    }
    meta = metas.forWriting(0);
    dataPages = data.sizes();
    indexPages = index.sizes();
    unfilled = new HashSet<>(indexPages.keySet());
    recover();
  }

  /** Between its two renames there is no queue: else one would begin empty. */
  static void endDrop(Path parent) throws IOException {
    Path kept = parent.resolve(KEPT);
    if (Files.exists(kept) && !Files.exists(parent.resolve(NAME))) {
      Files.move(kept, parent.resolve(NAME));
      // Before what it replaces is deleted: the disk may have one change of a folder, not another.
      PageFolder.forceNames(parent);
    }
  }

  private FileLock lock() throws IOException {
    FileLock taken;
    try {
      taken = lockFile.tryLock();
    } catch (OverlappingFileLockException here) {
      taken = null;
    }
    if (taken == null) {
      lockFile.close();
      throw new IOException("the queue in " + folder + " is in use by another process");
    }
    return taken;
  }

  /** Finds out what is whole of what a process, or the power, left behind. */
  private void recover() throws IOException {
    Recovery found;
    try (QueueReader reader = new QueueReader(data, index)) {
      long first = dataPages.isEmpty() ? 0 : dataPages.firstKey();
      found = Recovery.of(reader, indexPages, first, meta.getLong(0), meta.getLong(TAIL_AT));
    }
    head = found.head();
    tail = found.tail();
    unreadable = found.unreadable();
    lastTakenAt = found.lastTakenAt();
    meta.putLong(TAIL_AT, tail);
    meta.putLong(0, head);
    // What the disk lost the index of must not be written over, but an empty page is no loss.
    while (!dataPages.isEmpty()
        && dataPages.lastKey() > found.lastDataPage()
        && isBlank(dataPages.lastKey())) {
      data.delete(dataPages.pollLastEntry().getKey());
    }
    long last = dataPages.isEmpty() ? -1 : dataPages.lastKey();
    dataPage = Math.max(last, found.lastDataPage()) + 1;
  }

  private boolean isBlank(long page) throws IOException {
    MappedByteBuffer buffer = data.forReading(page);
    try {
      for (int at = 0; at < buffer.capacity(); at++) {
        if (buffer.get(at) != 0) {
          return false;
        }
      }
      return true;
    } finally {
      PageFolder.release(buffer);
    }
  }

  @Override
  public synchronized long append(byte[] bytes, int from, int length, int tagsAt, long takenAt)
      throws IOException {
    checkOpen();
    if (length > data.pageBytes()) {
      throw new IOException(
          "a record of " + length + " bytes does not fit into a page of the queue's file");
    }
    long record = head;
    // Both before anything is written: when the disk is full nothing has happened.
    if (dataBuffer == null || dataOffset + length > dataBuffer.capacity()) {
      nextDataPage();
    }
    if (indexPage != IndexItem.page(record)) {
      nextIndexPage(IndexItem.page(record));
    }
    dataBuffer.put(dataOffset, bytes, from, length);
    item.set(dataPage, dataOffset, length, takenAt, tagsAt);
    item.write(indexBuffer, record, bytes, from);
    dataOffset += length;
    // Last: what is before the head is whole.
    meta.putLong(0, record + 1);
    head = record + 1;
    return record;
  }

  private void nextDataPage() throws IOException {
    long page = dataBuffer == null ? dataPage : dataPage + 1;
    make(data, dataPages, page);
    MappedByteBuffer buffer = data.forWriting(page);
    letGo(data, dataPage, dataBuffer);
    dataBuffer = buffer;
    dataPage = page;
    dataOffset = 0;
  }

  private void nextIndexPage(long page) throws IOException {
    makeIndex(page);
    MappedByteBuffer buffer = index.forWriting(page);
    letGo(index, indexPage, indexBuffer);
    indexBuffer = buffer;
    indexPage = page;
  }

  private void letGo(PageFolder kind, long page, MappedByteBuffer buffer) {
    if (buffer == null) {
      return;
    }
    if (forced) {
      full.add(new Full(kind, page, buffer));
    } else {
      PageFolder.release(buffer);
    }
  }

  /** Makes pages that will be needed soon, so that no append has to wait for it. */
  void prepare() throws IOException {
    long nextData;
    long nextIndex;
    synchronized (this) {
      if (closed) {
        return;
      }
      boolean half = dataBuffer != null && dataOffset > dataBuffer.capacity() / 2;
      nextData = half ? dataPage + 1 : dataPage;
      nextIndex = IndexItem.page(head + IndexItem.PER_PAGE / 2);
    }
    makeIndex(IndexItem.page(head));
    makeIndex(nextIndex);
    make(data, dataPages, nextData);
  }

  private void makeIndex(long page) throws IOException {
    synchronized (pages) {
      if (unfilled.contains(page)) {
        index.fill(page);
        unfilled.remove(page);
      }
      make(index, indexPages, page);
    }
  }

  private void make(PageFolder kind, TreeMap<Long, Long> there, long page) throws IOException {
    synchronized (pages) {
      if (there.containsKey(page)) {
        return;
      }
      long bytes = bytes() + kind.pageBytes();
      if (bytes > limits.bytes) {
        throw new IOException(
            "the queue's files have reached their bound of " + (limits.bytes >> 20) + " MiB");
      }
      long left = freeBytes() - kind.pageBytes();
      if (left < limits.freeBytes) {
        throw new IOException(
            "the disk of the queue has no room: less than "
                + (limits.freeBytes >> 20)
                + " MiB would be free");
      }
      kind.make(page);
      if (forced) {
        kind.forceNames();
      }
      there.put(page, (long) kind.pageBytes());
    }
  }

  /** Room that is left on its disk. */
  long freeBytes() throws IOException {
    return Files.getFileStore(folder).getUsableSpace();
  }

  /** Size of all pages. */
  long bytes() {
    synchronized (pages) {
      long bytes = 0;
      for (long size : dataPages.values()) {
        bytes += size;
      }
      for (long size : indexPages.values()) {
        bytes += size;
      }
      return bytes;
    }
  }

  /** Records that the start found torn. */
  long unreadable() {
    return unreadable;
  }

  @Override
  public QueueReader reader() {
    return new QueueReader(data, index);
  }

  @Override
  public long lastTakenAt() {
    return lastTakenAt;
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
  public boolean removeBefore(long record) throws IOException {
    long before;
    long writtenTo;
    synchronized (this) {
      checkOpen();
      writtenTo = dataPage;
      before = Math.min(record, head - 1);
      if (before <= tail) {
        return false;
      }
      // First the tail: what is killed now leaves pages that nobody reads, and not a gap.
      meta.putLong(TAIL_AT, before);
      tail = before;
    }
    boolean removed = remove(index, indexPages, IndexItem.page(before));
    try (QueueReader reader = reader()) {
      // Whole, or its page may be any number; and that which is written to stays in any case.
      if (reader.load(before)) {
        removed |= remove(data, dataPages, Math.min(reader.item().page, writtenTo));
      }
    }
    return removed;
  }

  private boolean remove(PageFolder kind, TreeMap<Long, Long> there, long before)
      throws IOException {
    boolean removed = false;
    synchronized (pages) {
      while (!there.isEmpty() && there.firstKey() < before) {
        kind.delete(there.firstKey());
        there.pollFirstEntry();
        removed = true;
      }
    }
    releaseFull(kind, before);
    return removed;
  }

  /**
   * Nobody needs to force what was removed, and the disk has its room only once it is unmapped.
   * What is being forced stays for the next {@link #force}: this one would find it gone, and take
   * that for a disk that fails. It is not waited for, as a disk that hangs must not hold
   * deliveries.
   */
  private synchronized void releaseFull(PageFolder kind, long before) {
    full.removeIf(
        one -> {
          boolean inHand = one.buffer == forcedData || one.buffer == forcedIndex;
          boolean removed = one.kind == kind && one.page < before && !inHand;
          if (removed) {
            PageFolder.release(one.buffer);
          }
          return removed;
        });
  }

  /**
   * Brings all that was appended before to the disk.
   *
   * @return the head then: records before it survive a loss of power
   * @throws IOException if the disk does not take it; the file must not be trusted to have it
   */
  long force() throws IOException {
    synchronized (forcing) {
      long upTo;
      List<Full> all;
      MappedByteBuffer lastData;
      MappedByteBuffer lastIndex;
      synchronized (this) {
        checkOpen();
        upTo = head;
        all = full;
        full = new ArrayList<>();
        lastData = dataBuffer;
        lastIndex = indexBuffer;
        forcedData = lastData;
        forcedIndex = lastIndex;
      }
      try {
        whileForcing.run();
        all.forEach(one -> one.buffer.force());
        if (lastData != null) {
          lastData.force();
        }
        if (lastIndex != null) {
          lastIndex.force();
        }
        meta.force();
      } catch (UncheckedIOException error) {
        throw new IOException("the queue's file cannot be brought to the disk", error);
      } finally {
        synchronized (this) {
          forcedData = null;
          forcedIndex = null;
        }
      }
      all.forEach(one -> PageFolder.release(one.buffer));
      return upTo;
    }
  }

  /** What is mapped no longer must not be touched: the process would end. */
  private void checkOpen() throws IOException {
    if (closed) {
      throw new IOException("the queue's file is closed");
    }
  }

  @Override
  public void close() throws IOException {
    synchronized (forcing) {
      synchronized (this) {
        if (closed) {
          return;
        }
        closed = true;
        List<MappedByteBuffer> all = new ArrayList<>();
        full.forEach(one -> all.add(one.buffer));
        // Not one that refuses changes: deliveries that hung may still be removing pages.
        full = new ArrayList<>();
        for (MappedByteBuffer last : new MappedByteBuffer[] {dataBuffer, indexBuffer, meta}) {
          if (last != null) {
            all.add(last);
          }
        }
        try {
          all.forEach(MappedByteBuffer::force);
        } catch (UncheckedIOException error) {
          throw new IOException("the queue's file cannot be brought to the disk", error);
        } finally {
          all.forEach(PageFolder::release);
          lock.release();
          lockFile.close();
        }
      }
    }
  }
}
