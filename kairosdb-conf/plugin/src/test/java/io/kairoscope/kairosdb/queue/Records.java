package io.kairoscope.kairosdb.queue;

import com.google.common.collect.ImmutableSortedMap;
import java.util.ArrayList;
import java.util.List;
import java.util.SortedMap;
import java.util.concurrent.atomic.LongAdder;
import org.kairosdb.core.datapoints.LongDataPoint;

/** Points and their records, for tests. */
final class Records {
  final LongAdder unreadable = new LongAdder();
  final List<DeadLetters.Letter> strangers = new ArrayList<>();
  final PointCodec codec =
      new PointCodec(new BuiltInTypes(), unreadable, strangers::add);

  /** A point of one of many series. */
  RecordBuffer of(int series, long time, long value) {
    return of("m" + series % 7, ImmutableSortedMap.of("s", "" + series), time, value, 0);
  }

  static Series series(int series) {
    return new Series("m" + series % 7, ImmutableSortedMap.of("s", "" + series), "kairos_long");
  }

  RecordBuffer of(
      String metric, SortedMap<String, String> tags, long time, long value, int ttlS) {
    try {
      return codec.record(metric, tags, new LongDataPoint(time, value), ttlS);
    } catch (RefusedPointException refused) {
      throw new AssertionError(refused);
    }
  }
}
