package io.kairoscope.kairosdb.queue;

import java.io.Closeable;
import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Reads records of the queue's file, in whatever order, over pages of its own: for one thread, which
 * needs no lock for it.
 */
final class QueueReader implements PointFile.Reader, Closeable {
  // Address space only: a window of points at 60,000 a second has two of data and seven of index.
  private static final int PAGES_AT_HAND = 64;
  // That memory comes in, in bytes.
  private static final int LINE = 64;

  private final AtHand data;
  private final AtHand index;
  private final IndexItem item = new IndexItem();
  private byte[] bytes = new byte[1 << 10];
  // Where the records are that are expected.
  private long[] expected = new long[1 << 8];
  // The sum of what was read to have it near: what nobody uses is not read at all, once compiled.
  private int near;

  QueueReader(PageFolder data, PageFolder index) {
    this.data = new AtHand(data);
    this.index = new AtHand(index);
  }

  @Override
  public boolean load(long record) throws IOException {
    if (!loadItem(record) || item.length < 0 || item.offset < 0) {
      return false;
    }
    MappedByteBuffer page = data.get(item.page);
    if (page == null || (long) item.offset + item.length > page.capacity()) {
      return false;
    }
    if (item.length > bytes.length) {
      bytes = new byte[Math.max(item.length, 2 * bytes.length)];
    }
    page.get(item.offset, bytes, 0, item.length);
    // KairosDB's own has none that is empty.
    return item.hasSum() ? item.sumIs(record, bytes) : item.length > 0;
  }

  @Override
  public void expect(long[] records, int count) throws IOException {
    if (count > expected.length) {
      expected = new long[count];
    }
    for (int i = 0; i < count; i++) {
      MappedByteBuffer page = indexPage(records[i]);
      expected[i] = page == null ? -1 : IndexItem.place(page, records[i]);
    }
    for (int i = 0; i < count; i++) {
      MappedByteBuffer page = expected[i] < 0 ? null : data.get(IndexItem.pageOf(expected[i]));
      int offset = IndexItem.offsetOf(expected[i]);
      if (page != null && offset >= 0 && offset < page.capacity() - LINE) {
        // Most records are on two lines.
        near += page.get(offset) + page.get(offset + LINE);
      }
    }
  }

  /** Only what the index has; false if it has nothing, or its page is gone. */
  boolean loadItem(long record) throws IOException {
    MappedByteBuffer page = indexPage(record);
    if (page == null) {
      return false;
    }
    item.read(page, record);
    return !item.blank();
  }

  /** That has the record; null if none does. */
  private MappedByteBuffer indexPage(long record) throws IOException {
    MappedByteBuffer page = index.get(IndexItem.page(record));
    if (page != null && beyond(page, record) && index.isOutgrown()) {
      // It ended early, as a loss of power leaves it, and was made whole: what was appended since
      // is behind the end of what is mapped.
      index.forget();
      page = index.get(IndexItem.page(record));
    }
    return page == null || beyond(page, record) ? null : page;
  }

  private static boolean beyond(MappedByteBuffer page, long record) {
    return (record % IndexItem.PER_PAGE + 1) * IndexItem.BYTES > page.capacity();
  }

  IndexItem item() {
    return item;
  }

  @Override
  public byte[] bytes() {
    return bytes;
  }

  @Override
  public int length() {
    return item.length;
  }

  @Override
  public int tagsAt() {
    return item.hasSum() ? item.tagsAt() : 0;
  }

  @Override
  public long takenAt() {
    return item.takenAt;
  }

  @Override
  public void forget() {
    data.forget();
    index.forget();
  }

  @Override
  public void close() {
    forget();
  }

  private static final class AtHand {
    private final PageFolder folder;
    // The longest unused first.
    private final Map<Long, MappedByteBuffer> pages = new LinkedHashMap<>(16, 0.75f, true);
    private long lastPage = -1;
    private MappedByteBuffer last;
    // Of the folder, before the oldest of these pages was mapped.
    private int fills;

    AtHand(PageFolder folder) {
      this.folder = folder;
    }

    MappedByteBuffer get(long page) throws IOException {
      if (page == lastPage) {
        return last;
      }
      MappedByteBuffer found = pages.get(page);
      if (found == null) {
        if (pages.isEmpty()) {
          fills = folder.fills();
        }
        found = folder.forReading(page);
        if (found == null) {
          return null;
        }
        pages.put(page, found);
        Iterator<MappedByteBuffer> oldest = pages.values().iterator();
        while (pages.size() > PAGES_AT_HAND) {
          PageFolder.release(oldest.next());
          oldest.remove();
        }
      }
      lastPage = page;
      last = found;
      return found;
    }

    /** Whether some of these pages may be longer now. */
    boolean isOutgrown() {
      return fills != folder.fills();
    }

    void forget() {
      pages.values().forEach(PageFolder::release);
      pages.clear();
      lastPage = -1;
      last = null;
    }
  }
}
