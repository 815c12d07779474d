package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** A file that outlives the queue that writes to it, as a real one does; for any thread. */
final class MemoryFile implements PointFile {
  final List<byte[]> records = new ArrayList<>();
  private final List<Integer> tagsAt = new ArrayList<>();
  private final List<Long> times = new ArrayList<>();
  final Set<Long> torn = new HashSet<>();
  /** A reader may be overtaken by the checkpoint and find its page gone; else that is a mistake. */
  volatile boolean overtaken;
  long tail;
  boolean full;
  // How often a record can be read before reading fails; below 0 it does not.
  int readsLeft = -1;
  // How often somebody looked at what a record has.
  int looks;

  @Override
  public synchronized long append(byte[] bytes, int from, int length, int tags, long takenAt)
      throws IOException {
    if (full) {
      throw new IOException("no space");
    }
    records.add(Arrays.copyOfRange(bytes, from, from + length));
    tagsAt.add(tags);
    times.add(takenAt);
    return records.size() - 1;
  }

  @Override
  public Reader reader() {
    return new Reader() {
      private int at;

      @Override
      public boolean load(long index) {
        synchronized (MemoryFile.this) {
          if (index < tail && overtaken) {
            return false;
          }
          if (index < tail) {
            throw new IndexOutOfBoundsException("read before the checkpoint: " + index);
          }
          if (readsLeft == 0) {
            throw new InternalError("a page that cannot be read");
          }
          readsLeft -= readsLeft > 0 ? 1 : 0;
          at = (int) index;
          return !torn.contains(index);
        }
      }

      @Override
      public byte[] bytes() {
        synchronized (MemoryFile.this) {
          looks++;
          return records.get(at);
        }
      }

      @Override
      public int length() {
        return bytes().length;
      }

      @Override
      public int tagsAt() {
        synchronized (MemoryFile.this) {
          return tagsAt.get(at);
        }
      }

      @Override
      public long takenAt() {
        synchronized (MemoryFile.this) {
          return times.get(at);
        }
      }

      @Override
      public void forget() {}

      @Override
      public void close() {}
    };
  }

  @Override
  public synchronized long lastTakenAt() {
    return times.stream().mapToLong(time -> time).max().orElse(0);
  }

  @Override
  public synchronized long head() {
    return records.size();
  }

  @Override
  public synchronized long tail() {
    return tail;
  }

  @Override
  public synchronized boolean removeBefore(long index) {
    tail = Math.max(tail, index);
    return false;
  }
}
