package io.kairoscope.kairosdb.metrics;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/**
 * How often values were within each of some bounds, since the start. An observation is two
 * additions that no thread waits for.
 */
public final class Histogram {
  private final long[] bounds;
  private final double unit;
  private final LongAdder[] counts;
  private final LongAdder sum = new LongAdder();

  private Histogram(long[] bounds, double unit) {
    this.bounds = bounds;
    this.unit = unit;
    counts = new LongAdder[bounds.length + 1];
    Arrays.setAll(counts, i -> new LongAdder());
  }

  /**
   * Of whole numbers.
   *
   * @param bounds from low to high; a value that is equal to one is within it
   */
  public static Histogram of(long... bounds) {
    return new Histogram(bounds.clone(), 1);
  }

  /**
   * Of times.
   *
   * @param observed the unit of the values; seconds are what is told
   * @param boundsMs as {@link #of}, in ms
   */
  public static Histogram seconds(TimeUnit observed, long... boundsMs) {
    long[] bounds =
        Arrays.stream(boundsMs).map(ms -> observed.convert(ms, TimeUnit.MILLISECONDS)).toArray();
    return new Histogram(bounds, observed.convert(1, TimeUnit.SECONDS));
  }

  public void observe(long value) {
    int at = 0;
    while (at < bounds.length && value > bounds[at]) {
      at++;
    }
    counts[at].increment();
    // A time is below 0 if a clock was set back, and a sum that goes back is a restart to Prometheus.
    sum.add(Math.max(0, value));
  }

  /** How many values there were. */
  public long count() {
    return Arrays.stream(counts).mapToLong(LongAdder::sum).sum();
  }

  /** The values up to each bound, and at last all: as Prometheus has them. */
  long[] cumulative() {
    long[] upTo = Arrays.stream(counts).mapToLong(LongAdder::sum).toArray();
    Arrays.parallelPrefix(upTo, Long::sum);
    return upTo;
  }

  double bound(int i) {
    return i < bounds.length ? bounds[i] / unit : Double.POSITIVE_INFINITY;
  }

  double sum() {
    return sum.sum() / unit;
  }
}
