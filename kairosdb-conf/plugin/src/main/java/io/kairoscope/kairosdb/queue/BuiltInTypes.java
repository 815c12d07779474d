package io.kairoscope.kairosdb.queue;

import com.google.gson.JsonElement;
import java.io.IOException;
import java.util.List;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.datapoints.DataPointFactory;
import org.kairosdb.core.datapoints.DoubleDataPointFactoryImpl;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.datapoints.StringDataPointFactory;
import org.kairosdb.util.KDataInput;

/** KairosDB's own types by their names, for who looks at a queue without a KairosDB around it. */
final class BuiltInTypes implements KairosDataPointFactory {
  private final List<DataPointFactory> factories =
      List.of(
          new DoubleDataPointFactoryImpl(),
          new LongDataPointFactoryImpl(),
          new StringDataPointFactory());

  @Override
  public DataPoint createDataPoint(String type, long timestamp, JsonElement json)
      throws IOException {
    throw new UnsupportedOperationException("only from the queue's file");
  }

  @Override
  public DataPoint createDataPoint(String type, long timestamp, KDataInput buffer)
      throws IOException {
    DataPointFactory factory = getFactoryForDataStoreType(type);
    if (factory == null) {
      throw new IllegalStateException("a type that is not KairosDB's own: " + type);
    }
    return factory.getDataPoint(timestamp, buffer);
  }

  @Override
  public DataPointFactory getFactoryForType(String type) {
    throw new UnsupportedOperationException("only from the queue's file");
  }

  /** Null for types that are not KairosDB's own. */
  @Override
  public DataPointFactory getFactoryForDataStoreType(String type) {
    for (DataPointFactory factory : factories) {
      if (factory.getDataStoreType().equals(type)) {
        return factory;
      }
    }
    return null;
  }

  @Override
  public String getGroupType(String type) {
    throw new UnsupportedOperationException("only from the queue's file");
  }

  @Override
  public boolean isRegisteredType(String type) {
    return false;
  }
}
