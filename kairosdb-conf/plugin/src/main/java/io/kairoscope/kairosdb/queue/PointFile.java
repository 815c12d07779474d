package io.kairoscope.kairosdb.queue;

import java.io.IOException;

/** The durable side of the queue: records in the order they came, by an index without gaps. */
interface PointFile {
  /**
   * Adds a record that survives the process once this returns.
   *
   * @param from where the record begins in the bytes
   * @param tagsAt where the tags begin in the record
   * @param takenAt ms since 1970
   * @return its index
   * @throws IOException if it is not in the file; then nothing has changed
   */
  long append(byte[] bytes, int from, int length, int tagsAt, long takenAt) throws IOException;

  /** For one thread each. */
  Reader reader();

  /** When the last record was taken that the file had when it was opened, ms since 1970. */
  long lastTakenAt();

  /** The index that the next record will have. */
  long head();

  /** The checkpoint: where reading begins after a restart. */
  long tail();

  /**
   * Moves the checkpoint, never back. The file may keep more than it is told to give up.
   *
   * @return whether it gave room back: then readers must forget what they keep of it
   */
  boolean removeBefore(long index) throws IOException;

  /** Reads records in whatever order; what was loaded is here until the next is. */
  interface Reader {
    /** Loads a record; false if it is torn or gone. */
    boolean load(long index) throws IOException;

    /**
     * Has records near the processor that are loaded soon. They lie anywhere: what one of them is
     * waited for, the others are meanwhile, which they are not if each is loaded after the last.
     *
     * @param count how many of the indexes, from the first on
     */
    default void expect(long[] indexes, int count) throws IOException {}

    /** The record is at their beginning. */
    byte[] bytes();

    int length();

    /** Where the tags begin; 0 if nobody noted it, as KairosDB's own queue. */
    int tagsAt();

    /** When it was taken, ms since 1970. */
    long takenAt();

    /** Lets go of what the file has removed. */
    void forget();

    /** It is not read from any more. */
    void close();
  }
}
