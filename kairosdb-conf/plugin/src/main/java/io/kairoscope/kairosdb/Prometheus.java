package io.kairoscope.kairosdb;

import java.util.Map;
import java.util.TreeMap;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.DataPointSet;

/** KairosDB's metrics in Prometheus' text format, one line each: the newest value of a series. */
final class Prometheus {
  private final StringBuilder text = new StringBuilder();

  /** Adds a series; what is no number is left out, as Prometheus has nothing else. */
  void add(DataPointSet set) {
    if (set.getDataPoints().isEmpty()) {
      return;
    }
    DataPoint newest = set.getDataPoints().get(set.getDataPoints().size() - 1);
    if (newest.isLong()) {
      line(set, Long.toString(newest.getLongValue()));
    } else if (newest.isDouble()) {
      line(set, Double.toString(newest.getDoubleValue()));
    }
  }

  private void line(DataPointSet set, String value) {
    text.append(name(set.getName()));
    String separator = "{";
    for (Map.Entry<String, String> tag : new TreeMap<>(set.getTags()).entrySet()) {
      text.append(separator).append(name(tag.getKey()).replace(':', '_'));
      text.append("=\"").append(escaped(tag.getValue())).append('"');
      separator = ",";
    }
    text.append(separator.equals(",") ? "} " : " ").append(value).append('\n');
  }

  private static String name(String name) {
    String legal = name.replaceAll("[^a-zA-Z0-9_:]", "_");
    return legal.matches("[0-9].*") ? "_" + legal : legal;
  }

  private static String escaped(String value) {
    return value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
  }

  @Override
  public String toString() {
    return text.toString();
  }
}
