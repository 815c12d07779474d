package io.kairoscope.kairosdb.queue;

import com.google.common.collect.SetMultimap;
import java.util.function.ObjIntConsumer;

/** What the doors of KairosDB, its datastore and its health check may ask of the queue. */
public interface PointQueue extends QueueDepth {
  /**
   * Ends the record that was begun, if it is a point that can be stored.
   *
   * @throws RefusedPointException if no store can ever hold it: the sender's to mend
   */
  void add(RecordBuffer records) throws RefusedPointException;

  /**
   * Takes out records of new series, where too many of those come: their senders' to send less often,
   * or later.
   *
   * @param refused gets why not, and which, in order, as long as it is there
   */
  void admit(RecordBuffer records, ObjIntConsumer<String> refused);

  /**
   * Takes points: when this returns they are in the queue's file.
   *
   * @param records are told how many of them are, also if it fails
   * @throws NotTakenError if others cannot be taken now: ours to mend, and to be sent again
   */
  void put(RecordBuffer records);

  /**
   * Waits until all that was taken before survives a loss of power, where the configuration asks
   * for that; else returns at once.
   *
   * @throws NotTakenError if the file cannot be written to the disk
   */
  void sync() throws InterruptedException;

  /**
   * As {@link #sync}, soon, and nobody waits for it: of points that nobody acknowledges. Each put
   * is to be followed by one of the two, or its points never survive a loss of power.
   */
  void syncSoon();

  /**
   * Releases what waits of a metric's series that have these tags, and waits until the store has it.
   *
   * @param tags of each name one of its values; empty is all
   * @return whether the store has all that was taken before the call
   */
  boolean flush(String metric, SetMultimap<String, String> tags, long timeoutMs)
      throws InterruptedException;

  /**
   * Gives up what waits of a metric, as it was deleted by another node.
   *
   * @param startMs time of the first point, inclusive, ms since 1970
   * @param endMs time of the last point, inclusive
   * @param tags of each name one of its values; empty is all
   * @param takenBeforeMs only points that were taken up to then, ms since 1970
   */
  void forget(
      String metric,
      long startMs,
      long endMs,
      SetMultimap<String, String> tags,
      long takenBeforeMs)
      throws InterruptedException;

  /** Whether other KairosDBs write to this store. */
  boolean hasOthers();

  /**
   * What other nodes deleted while this one was away, up to ten minutes, has been given up: before
   * that nothing that is left from then is stored, or it would come back.
   */
  void deletesAreKnown();

  /**
   * Another node has deleted: writes the index of a metric's rows again that had points since then
   * (ms since 1970), and that of its other rows with their next points.
   */
  void reindex(String metric, long sinceMs);

  /**
   * A delete of a metric begins on this node, which may empty the caches of rows.
   *
   * @return to be run once, when it is over: does as {@link #reindex}, also for rows that had
   *     points meanwhile and are not in the cache any more
   */
  Runnable deleting(String metric, long sinceMs);

  /** How it is. Cheap: may be asked often. */
  QueueHealth health();
}
