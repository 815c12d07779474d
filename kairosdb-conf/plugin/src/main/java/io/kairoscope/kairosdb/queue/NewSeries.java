package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.MetricSource;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;

/**
 * Bounds how many new series a second are taken.
 *
 * <p>A point of a known series costs the store next to nothing beside others of it; one of a new
 * series costs a partition and three rows of the index, and drives others out of the caches, whose
 * next points then cost the same. A sender that makes up a series for each point would take the
 * store from everybody else.
 *
 * <p>Known are the series of the last points: as many as the cache of row keys holds, and up to
 * twice as many. So many may come at once, too: after a start, or when another KairosDB has failed,
 * all sensors of this node are new to it, and none of them is refused. It knows them by the queue's
 * hash: of two with the same hash the second passes for known.
 */
final class NewSeries implements MetricSource {
  private final int most;
  private final double perS;
  private final LongSupplier nowNs;
  private Keys young;
  private Keys old;
  private double left;
  private long atNs;

  private final LongAdder taken = new LongAdder();
  private final LongAdder refused = new LongAdder();

  /** Numbers in a table with twice as many places; 0 is an empty one. */
  private static final class Keys {
    private final long[] places;
    private int count;

    Keys(int most) {
      places = new long[Math.max(2, 2 * Integer.highestOneBit(2 * most - 1))];
    }

    private int place(long key) {
      int mask = places.length - 1;
      int at = (int) (key * 0x9E3779B97F4A7C15L >>> 32) & mask;
      while (places[at] != 0 && places[at] != key) {
        at = at + 1 & mask;
      }
      return at;
    }

    boolean has(long key) {
      return places[place(key)] == key;
    }

    void add(long key) {
      places[place(key)] = key;
      count++;
    }

    void clear() {
      Arrays.fill(places, 0);
      count = 0;
    }
  }

  /**
   * @param most that are surely known, and that may come at once
   * @param perS that may come a second, for good
   */
  NewSeries(int most, int perS, LongSupplier nowNs) {
    this.most = Math.max(1, Math.min(most, 1 << 27));
    this.perS = perS;
    this.nowNs = nowNs;
    young = new Keys(this.most);
    old = new Keys(this.most);
    left = this.most;
    atNs = nowNs.getAsLong();
  }

  /**
   * The first record from one on whose series is not surely known; their number if there is none.
   *
   * <p>For many at once: each series is somewhere else in memory, and what one waits for there the
   * next ones wait for meanwhile. One by one, between all else that is done for a point, this was a
   * fourth of what the door takes.
   */
  synchronized int unknown(RecordBuffer records, int from) {
    int record = from;
    while (record < records.count() && young.has(named(records.key(record)))) {
      record++;
    }
    return record;
  }

  private static long named(long series) {
    return series == 0 ? 1 : series;
  }

  /** Whether a point of this series may be taken now; then its series is known. */
  synchronized boolean take(long series) {
    long key = named(series);
    if (young.has(key)) {
      return true;
    }
    if (!old.has(key)) {
      if (!allowed()) {
        refused.increment();
        return false;
      }
      taken.increment();
    }
    if (young.count == most) {
      Keys oldest = old;
      old = young;
      young = oldest;
      young.clear();
    }
    young.add(key);
    return true;
  }

  private boolean allowed() {
    long now = nowNs.getAsLong();
    left = Math.min(most, left + perS * (now - atNs) / TimeUnit.SECONDS.toNanos(1));
    atNs = now;
    if (left < 1) {
      return false;
    }
    left--;
    return true;
  }

  /** Why a point was not taken, for its sender. */
  String reason() {
    return "its series is new, and more than " + most + " at once and "
        + (long) perS + " a second are not taken; send it again later";
  }

  @Override
  public void tell(Exposition to) {
    to.counter("kairosdb_queue_new_series_total", "Series that were new to this node, and taken.")
        .value(taken.sum());
    to.counter(
            "kairosdb_queue_new_series_refused_points_total",
            "Points that were not taken, as too many new series came.")
        .value(refused.sum());
  }
}
