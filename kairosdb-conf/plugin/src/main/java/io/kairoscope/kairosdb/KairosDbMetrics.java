package io.kairoscope.kairosdb;

import io.kairoscope.kairosdb.KairosDbFamilies.Family;
import io.kairoscope.kairosdb.KairosDbFamilies.Kind;
import io.kairoscope.kairosdb.KairosDbFamilies.Source;
import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.MetricSource;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.core.reporting.KairosMetricReporter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What KairosDB counts itself, summed up since the start.
 *
 * <p>KairosDB forgets most of its counts as it tells them, so there is one who asks, and whoever
 * reads gets the sums: one at a time, so that two readers at once lose nothing and count nothing
 * twice. It tells min, max and avg too; they are of the time since they were last asked for, cannot
 * be added up, and are left out.
 */
final class KairosDbMetrics implements MetricSource {
  private static final Logger logger = LoggerFactory.getLogger(KairosDbMetrics.class);
  private static final String COUNT = ".count";
  private static final String SUM = ".sum";

  private final Iterable<KairosMetricReporter> reporters;
  private final LongAdder failures;
  private final Map<String, Samples> byName = new HashMap<>();
  private final Map<Family, Map<List<String>, Sum>> families = new LinkedHashMap<>();

  /** Where a metric of KairosDB goes to. */
  private record Samples(Family family, Source source, Map<List<String>, Sum> sums) {}

  private static final class Sum {
    long count;
    long value;
  }

  /**
   * @param stock whether KairosDB's own queue and doors are in use; else what only these have is
   *     left out, as it stays 0
   * @param failures is told of reporters that could not be asked
   */
  KairosDbMetrics(Iterable<KairosMetricReporter> reporters, boolean stock, LongAdder failures) {
    this.reporters = reporters;
    this.failures = failures;
    for (Family family : KairosDbFamilies.ALL) {
      if (stock || !family.ofStock()) {
        Map<List<String>, Sum> sums = new LinkedHashMap<>();
        families.put(family, sums);
        for (Source source : family.sources()) {
          byName.put(source.name(), new Samples(family, source, sums));
          if (source.tags().isEmpty()) {
            // There from the start, as an increase from nothing is none.
            sums.put(source.labels(Map.of()), new Sum());
          }
        }
      }
    }
  }

  @Override
  public synchronized void tell(Exposition to) {
    families.forEach(
        (family, sums) -> {
          if (family.isAsOfNow()) {
            sums.clear();
          }
        });
    for (KairosMetricReporter reporter : reporters) {
      // Queues tell of themselves: see StockQueue.
      if (!(reporter instanceof QueueProcessor)) {
        ask(reporter);
      }
    }
    families.forEach((family, sums) -> tell(to, family, sums));
  }

  private void ask(KairosMetricReporter reporter) {
    try {
      for (DataPointSet set : reporter.getMetrics(System.currentTimeMillis())) {
        take(set);
      }
    } catch (RuntimeException | Error error) {
      // As the driver's before there is a connection: the others are told all the same.
      failures.increment();
      logger.warn("{} cannot be asked for metrics", reporter.getClass().getName(), error);
    }
  }

  private void take(DataPointSet set) {
    String method = set.getTags().get("method");
    String name = set.getName() + (method == null ? "" : KairosDbFamilies.METHOD + method);
    Samples samples = byName.get(name);
    boolean part = name.endsWith(COUNT) || name.endsWith(SUM);
    if (samples == null && part) {
      samples = byName.get(name.substring(0, name.lastIndexOf('.')));
    }
    if (samples == null || part != (samples.family.kind() == Kind.SUMMARY)) {
      return;
    }
    Sum sum =
        samples.sums.computeIfAbsent(samples.source.labels(set.getTags()), labels -> new Sum());
    for (DataPoint point : set.getDataPoints()) {
      long value = point.isLong() ? point.getLongValue() : 0;
      if (name.endsWith(COUNT)) {
        sum.count += value;
      } else {
        sum.value += value(samples.family.kind(), value);
      }
    }
  }

  private static long value(Kind kind, long told) {
    if (told >= 0 || kind == Kind.GAUGE) {
      return told;
    }
    // KairosDB counts in ints, which are negative past 2 billion; and a sum of times is, if a clock
    // was set back.
    return kind == Kind.COUNTER ? told + (1L << Integer.SIZE) : 0;
  }

  private static void tell(Exposition to, Family family, Map<List<String>, Sum> sums) {
    if (sums.isEmpty()) {
      return;
    }
    Exposition.Family told = family.begin(to);
    sums.forEach(
        (labels, sum) -> {
          String[] all = labels.toArray(String[]::new);
          if (family.kind() == Kind.SUMMARY) {
            told.values(sum.count, sum.value / family.unit(), all);
          } else {
            told.value(sum.value / family.unit(), all);
          }
        });
  }
}
