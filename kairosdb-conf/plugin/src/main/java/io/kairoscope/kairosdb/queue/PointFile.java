package io.kairoscope.kairosdb.queue;

import java.io.IOException;

/** The durable side of the queue: records in the order they came, by an index without gaps. */
interface PointFile {
  /** Adds a record that survives the process once this returns; its index. */
  long append(byte[] bytes) throws IOException;

  /** The record at an index from {@link #tail()} to before {@link #head()}. */
  byte[] read(long index) throws IOException;

  /** When the record was appended, ms since 1970. */
  long appendedAt(long index) throws IOException;

  /** The index that the next record will have. */
  long head();

  /** The checkpoint: where reading begins after a restart. */
  long tail();

  /** Moves the checkpoint. The file may keep more than it is told to give up. */
  void removeBefore(long index) throws IOException;
}
