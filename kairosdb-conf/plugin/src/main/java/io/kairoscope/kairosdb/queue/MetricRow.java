package io.kairoscope.kairosdb.queue;

import org.kairosdb.datastore.cassandra.TimedString;

/**
 * A metric's name and the time of a row as they are in the cache, with how long the index has them.
 * All in the cache are of this class, as it is never equal to one of KairosDB's.
 */
final class MetricRow extends TimedString {
  private long indexUntilS;
  private int indexedForS;
  private volatile boolean unsure;

  MetricRow(String metric, long rowTime) {
    super(metric, rowTime);
  }

  long indexUntilS() {
    return indexUntilS;
  }

  void indexUntilS(long untilS) {
    indexUntilS = untilS;
  }

  int indexedForS() {
    return indexedForS;
  }

  void indexedForS(int takenAtS) {
    indexedForS = Math.max(indexedForS, takenAtS);
  }

  /** Whether the store may have forgotten its index, and has not taken it since. */
  boolean isUnsure() {
    return unsure;
  }

  void unsure(boolean is) {
    unsure = is;
  }
}
