package org.kairosdb.metrics4j.internal;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import org.kairosdb.metrics4j.collectors.MetricCollector;
import org.kairosdb.metrics4j.configuration.MetricConfig;

/**
 * For `make bench ONLY=releases-metrics`, in no bundle: goes before the class of metrics4j that has
 * this name.
 *
 * <p>KairosDB 1.3 asks metrics4j for a collector each time it counts something. This gives the one
 * that keeps nothing, without looking anything up, so that the bench shows what the look-ups cost.
 */
public class SourceInvocationHandler implements InvocationHandler {
  private static final Object NOTHING_KEPT = new DevNullCollector();

  public SourceInvocationHandler(MetricConfig config) {}

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) {
    return NOTHING_KEPT;
  }

  public void setCollector(MethodArgKey key, MetricCollector collector) {}
}
