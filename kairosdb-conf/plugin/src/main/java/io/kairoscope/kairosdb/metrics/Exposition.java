package io.kairoscope.kairosdb.metrics;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Metrics in Prometheus' text format (0.0.4), a family after the other.
 *
 * <p>What breaks the format or its conventions is refused: a family or a sample that is there
 * already, a name that is none, a counter that does not end in _total or is no number.
 */
public final class Exposition {
  private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9_]*");
  private static final String TOTAL = "_total";

  private final StringBuilder text = new StringBuilder();
  private final Set<String> names = new HashSet<>();
  private final Set<String> samples = new HashSet<>();

  private enum Type {
    COUNTER,
    GAUGE,
    SUMMARY,
    HISTOGRAM
  }

  /** Something that only grows, since the start. */
  public Family counter(String name, String help) {
    return new Family(Type.COUNTER, name, help);
  }

  /** Something as it is now. */
  public Family gauge(String name, String help) {
    return new Family(Type.GAUGE, name, help);
  }

  /** How many there were, and their sum; without quantiles, which nobody can add up. */
  public Family summary(String name, String help) {
    return new Family(Type.SUMMARY, name, help);
  }

  public Family histogram(String name, String help) {
    return new Family(Type.HISTOGRAM, name, help);
  }

  /** One family, to which samples are added before the next one is begun. */
  public final class Family {
    private final Type type;
    private final String name;

    private Family(Type type, String name, String help) {
      boolean total = name.endsWith(TOTAL);
      if (!NAME.matcher(name).matches() || total != (type == Type.COUNTER)) {
        throw new IllegalArgumentException(name + " is no name for a " + type);
      }
      if (!names.add(name)) {
        throw new IllegalArgumentException("There is a family " + name + " already");
      }
      this.type = type;
      this.name = name;
      text.append("# HELP ").append(name).append(' ');
      text.append(help.replace("\\", "\\\\").replace("\n", "\\n")).append('\n');
      text.append("# TYPE ").append(name).append(' ');
      text.append(type.name().toLowerCase(Locale.ROOT)).append('\n');
    }

    /**
     * Adds a sample of a counter or a gauge.
     *
     * @param labels name, value, name, value …
     */
    public Family value(double value, String... labels) {
      check(type == Type.COUNTER || type == Type.GAUGE);
      if (type == Type.COUNTER && !(value >= 0 && value < Double.POSITIVE_INFINITY)) {
        throw new IllegalArgumentException(name + " cannot be " + value);
      }
      sample(name, labels, value);
      return this;
    }

    /** Adds a sample of a summary. */
    public Family values(long count, double sum, String... labels) {
      check(type == Type.SUMMARY);
      sample(name + "_count", labels, count);
      sample(name + "_sum", labels, sum);
      return this;
    }

    /** Adds a sample of a histogram. */
    public Family values(Histogram values, String... labels) {
      check(type == Type.HISTOGRAM);
      long[] upTo = values.cumulative();
      String[] more = Arrays.copyOf(labels, labels.length + 2);
      more[labels.length] = "le";
      for (int i = 0; i < upTo.length; i++) {
        more[labels.length + 1] = number(values.bound(i));
        sample(name + "_bucket", more, upTo[i]);
      }
      sample(name + "_count", labels, upTo[upTo.length - 1]);
      sample(name + "_sum", labels, values.sum());
      return this;
    }

    private void check(boolean right) {
      if (!right) {
        throw new IllegalArgumentException(name + " is a " + type);
      }
    }
  }

  private void sample(String name, String[] labels, double value) {
    StringBuilder series = new StringBuilder(name);
    for (int i = 0; i < labels.length; i += 2) {
      if (!NAME.matcher(labels[i]).matches()) {
        throw new IllegalArgumentException(labels[i] + " is no name for a label of " + name);
      }
      series.append(i == 0 ? "{" : ",").append(labels[i]).append("=\"");
      series.append(escaped(labels[i + 1])).append('"');
    }
    series.append(labels.length == 0 ? "" : "}");
    if (!samples.add(series.toString())) {
      throw new IllegalArgumentException("There is a sample " + series + " already");
    }
    text.append(series).append(' ').append(number(value)).append('\n');
  }

  private static String escaped(String value) {
    return value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
  }

  private static String number(double value) {
    if (Double.isInfinite(value)) {
      return value > 0 ? "+Inf" : "-Inf";
    }
    // Whole numbers as such, which people read; up to where a double has all of them.
    boolean whole = value == Math.rint(value) && Math.abs(value) < 1L << 53;
    return whole ? Long.toString((long) value) : Double.toString(value);
  }

  @Override
  public String toString() {
    return text.toString();
  }
}
