package io.kairoscope.kairosdb.queue;

import java.io.Closeable;
import java.io.IOException;
import org.kairosdb.bigqueue.IBigArray;

/** KairosDB's own memory-mapped queue file: either queue processor goes on where the other was. */
final class BigArrayFile implements PointFile, Closeable {
  private final IBigArray array;

  BigArrayFile(IBigArray array) {
    this.array = array;
  }

  @Override
  public long append(byte[] bytes) throws IOException {
    return array.append(bytes);
  }

  @Override
  public byte[] read(long index) throws IOException {
    return array.get(index);
  }

  @Override
  public long appendedAt(long index) throws IOException {
    return array.getTimestamp(index);
  }

  @Override
  public long head() {
    return array.getHeadIndex();
  }

  @Override
  public long tail() {
    return array.getTailIndex();
  }

  @Override
  public void removeBefore(long index) throws IOException {
    // Its tail must be a record that is there: the last one stays, stored or not.
    long last = array.getHeadIndex() - 1;
    long before = Math.min(index, last);
    if (before > array.getTailIndex()) {
      array.removeBeforeIndex(before);
    }
  }

  /** Closes the file with its checkpoint. Nothing may be read or appended any more. */
  @Override
  public void close() throws IOException {
    // Its tail goes to disk with a record only. An empty one is passed over by whoever reads it.
    array.append(new byte[0]);
    array.flush();
    array.close();
  }
}
