package io.kairoscope.kairosdb.door;

import com.google.gson.JsonElement;
import java.io.IOException;
import java.util.Map;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.datapoints.ComplexDataPointFactory;
import org.kairosdb.core.datapoints.DataPointFactory;
import org.kairosdb.core.datapoints.DoubleDataPointFactoryImpl;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.datapoints.StringDataPointFactory;
import org.kairosdb.util.KDataInput;

/** KairosDB's own types, and one that is no number and no text. */
final class FakeFactories implements KairosDataPointFactory {
  private final Map<String, DataPointFactory> factories =
      Map.of(
          "long", new LongDataPointFactoryImpl(),
          "double", new DoubleDataPointFactoryImpl(),
          "string", new StringDataPointFactory(),
          "complex", new ComplexDataPointFactory());

  @Override
  public DataPoint createDataPoint(String type, long time, JsonElement json) throws IOException {
    return factories.get(type).getDataPoint(time, json);
  }

  @Override
  public DataPoint createDataPoint(String type, long time, KDataInput buffer)
      throws IOException {
    return getFactoryForDataStoreType(type).getDataPoint(time, buffer);
  }

  @Override
  public DataPointFactory getFactoryForType(String type) {
    return factories.get(type);
  }

  @Override
  public DataPointFactory getFactoryForDataStoreType(String type) {
    return factories.values().stream()
        .filter(factory -> factory.getDataStoreType().equals(type))
        .findAny()
        .orElseThrow();
  }

  @Override
  public String getGroupType(String type) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean isRegisteredType(String type) {
    return factories.containsKey(type);
  }
}
