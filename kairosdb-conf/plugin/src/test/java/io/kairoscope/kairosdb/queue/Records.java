package io.kairoscope.kairosdb.queue;

import com.google.common.collect.ImmutableSortedMap;
import com.google.gson.JsonElement;
import java.io.IOException;
import java.util.List;
import java.util.SortedMap;
import java.util.concurrent.atomic.LongAdder;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.datapoints.DataPointFactory;
import org.kairosdb.core.datapoints.DoubleDataPointFactoryImpl;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.datapoints.StringDataPointFactory;
import org.kairosdb.util.KDataInput;

/** Points and their records, for tests. */
final class Records {
  final LongAdder unreadable = new LongAdder();
  final PointCodec codec = new PointCodec(new Types(), unreadable);

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

  /** KairosDB's own types by their names, without Guice. */
  static final class Types implements KairosDataPointFactory {
    private final List<DataPointFactory> factories =
        List.of(
            new DoubleDataPointFactoryImpl(),
            new LongDataPointFactoryImpl(),
            new StringDataPointFactory());

    @Override
    public DataPoint createDataPoint(String type, long timestamp, JsonElement json) {
      throw new UnsupportedOperationException();
    }

    @Override
    public DataPoint createDataPoint(String type, long timestamp, KDataInput buffer)
        throws IOException {
      DataPointFactory factory = getFactoryForDataStoreType(type);
      if (factory == null) {
        throw new IllegalStateException("no such type: " + type);
      }
      return factory.getDataPoint(timestamp, buffer);
    }

    @Override
    public DataPointFactory getFactoryForType(String type) {
      throw new UnsupportedOperationException();
    }

    @Override
    public DataPointFactory getFactoryForDataStoreType(String type) {
      return factories.stream()
          .filter(factory -> factory.getDataStoreType().equals(type))
          .findFirst()
          .orElse(null);
    }

    @Override
    public String getGroupType(String type) {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean isRegisteredType(String type) {
      throw new UnsupportedOperationException();
    }
  }
}
