package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;

/** A file that outlives the queue that writes to it, as a real one does; for any thread. */
final class MemoryFile implements PointFile {
  final List<byte[]> records = new ArrayList<>();
  private final List<Long> times = new ArrayList<>();
  private final LongSupplier clockMs;
  long tail;
  boolean full;

  MemoryFile(LongSupplier clockMs) {
    this.clockMs = clockMs;
  }

  @Override
  public synchronized long append(byte[] bytes) throws IOException {
    if (full) {
      throw new IOException("no space");
    }
    records.add(bytes);
    times.add(clockMs.getAsLong());
    return records.size() - 1;
  }

  @Override
  public synchronized byte[] read(long index) {
    if (index < tail) {
      throw new IndexOutOfBoundsException("read before the checkpoint: " + index);
    }
    return records.get((int) index);
  }

  @Override
  public synchronized long appendedAt(long index) {
    return times.get((int) index);
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
  public synchronized void removeBefore(long index) {
    tail = Math.max(tail, index);
  }
}
