package io.kairoscope.kairosdb.queue;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.Map;
import java.util.SortedMap;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;

/**
 * A row key as it is in the cache, with what must be known of its row for as long as it is there.
 *
 * <p>There may be a million of them: what is added to KairosDB's own is some thirty bytes. It is
 * never equal to one of KairosDB's, so all in the cache are of this class. It is found by the hash
 * that the series has, since hashing and comparing sorted maps makes objects of each tag.
 */
final class RowKey extends DataPointsRowKey {
  private static final AtomicIntegerFieldUpdater<RowKey> WAITING =
      AtomicIntegerFieldUpdater.newUpdater(RowKey.class, "waiting");

  // Fifty tags of usual length. The cache counts its rows, with 1 KiB each: of larger ones, of which
  // anybody could fill it, the index is written with each of their releases.
  private static final int LARGE_BYTES = 8 << 10;

  private final int hash;
  // Points that were released and are not settled.
  private volatile int waiting;
  // Seconds since 1970: enough for deletes, and half of a long.
  private volatile int touchedS;
  private long indexUntilS;
  private int indexedForS;
  private volatile boolean unsure;
  private Place place;
  private int placedS;

  RowKey(Series series, String clusterName, long rowTime) {
    super(series.metric(), clusterName, rowTime, series.type(), series.tags());
    hash = 31 * series.hashCode() + Long.hashCode(rowTime);
  }

  /** Points are on their way to the row, or there. */
  void touch(int points, long nowMs) {
    WAITING.addAndGet(this, points);
    touchedS = (int) (nowMs / 1_000);
  }

  /** Whether points went there since, or are on their way. */
  boolean touchedSince(long ms) {
    return waiting > 0 || touchedS >= (int) (ms / 1_000);
  }

  /** Whether its tags take many times what a cache is taken to have for each. */
  boolean isLarge() {
    long bytes = 0;
    for (Map.Entry<String, String> tag : getTags().entrySet()) {
      bytes += 2 * SeriesRecords.WORD_BYTES + tag.getKey().length() + tag.getValue().length();
    }
    return bytes > LARGE_BYTES;
  }

  /** Whether points are on their way there. */
  boolean isAwaited() {
    return waiting > 0;
  }

  // The rest is asked and told by the index alone, under its lock.

  long indexUntilS() {
    return indexUntilS;
  }

  void indexUntilS(long untilS) {
    indexUntilS = untilS;
  }

  /** When the last of the points was taken that the index was written for, s since 1970. */
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

  /** Where it is, worked out now and then: the ring seldom changes. */
  Place place(Store store, ByteBuffer key, long nowMs, int keptS) {
    int nowS = (int) (nowMs / 1_000);
    if (place == null || Math.abs(nowS - placedS) >= keptS) {
      place = store.place(key);
      placedS = nowS;
    }
    return place;
  }

  @Override
  public boolean equals(Object other) {
    if (this == other) {
      return true;
    }
    if (!(other instanceof RowKey)) {
      return false;
    }
    RowKey that = (RowKey) other;
    return hash == that.hash
        && getTimestamp() == that.getTimestamp()
        && getMetricName().equals(that.getMetricName())
        && getDataType().equals(that.getDataType())
        && same(getTags(), that.getTags());
  }

  private static boolean same(SortedMap<String, String> one, SortedMap<String, String> other) {
    return one == other
        || one.size() == other.size()
            && same(one.keySet().iterator(), other.keySet().iterator())
            && same(one.values().iterator(), other.values().iterator());
  }

  private static boolean same(Iterator<String> one, Iterator<String> other) {
    while (one.hasNext()) {
      if (!one.next().equals(other.next())) {
        return false;
      }
    }
    return true;
  }

  @Override
  public int hashCode() {
    return hash;
  }
}
