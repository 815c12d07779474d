package io.kairoscope.kairosdb;

import com.google.inject.TypeLiteral;
import com.google.inject.spi.InjectionListener;
import com.google.inject.spi.TypeEncounter;
import com.google.inject.spi.TypeListener;
import io.kairoscope.kairosdb.metrics.MetricSource;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArraySet;
import org.kairosdb.core.reporting.KairosMetricReporter;

/**
 * Everything of KairosDB that has metrics, as Guice makes it. KairosDB's own list of these comes
 * with its reporter, which writes them into itself and is off here.
 */
final class Reporters implements TypeListener {
  private final Set<KairosMetricReporter> reporters = new CopyOnWriteArraySet<>();

  private final Set<MetricSource> sources = new CopyOnWriteArraySet<>();

  /** KairosDB's. */
  Iterable<KairosMetricReporter> kairosDbs() {
    return reporters;
  }

  /** The plugin's. */
  Iterable<MetricSource> ours() {
    return sources;
  }

  @Override
  public <T> void hear(TypeLiteral<T> type, TypeEncounter<T> encounter) {
    if (KairosMetricReporter.class.isAssignableFrom(type.getRawType())) {
      encounter.register(
          (InjectionListener<T>) made -> reporters.add((KairosMetricReporter) made));
    }
    if (MetricSource.class.isAssignableFrom(type.getRawType())) {
      encounter.register((InjectionListener<T>) made -> sources.add((MetricSource) made));
    }
  }
}
