package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.MetricSource;
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
  private KeyTable young;
  private KeyTable old;
  private double left;
  private long atNs;

  private final LongAdder taken = new LongAdder();
  private final LongAdder refused = new LongAdder();

  /**
   * @param most that are surely known, and that may come at once
   * @param perS that may come a second, for good
   */
  NewSeries(int most, int perS, LongSupplier nowNs) {
    this.most = Math.max(1, Math.min(most, 1 << 27));
    this.perS = perS;
    this.nowNs = nowNs;
    young = new KeyTable(false, this.most);
    old = new KeyTable(false, this.most);
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
    while (record < records.count() && young.has(records.key(record))) {
      record++;
    }
    return record;
  }

  /** Whether a point of this series may be taken now; then its series is known. */
  synchronized boolean take(long series) {
    if (young.has(series)) {
      return true;
    }
    if (!old.has(series)) {
      if (!allowed()) {
        refused.increment();
        return false;
      }
      taken.increment();
    }
    if (young.count() == most) {
      KeyTable oldest = old;
      old = young;
      young = oldest;
      young.clear();
    }
    young.row(series);
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
