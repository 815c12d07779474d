package io.kairoscope.kairosdb;

import com.google.inject.AbstractModule;
import com.google.inject.Singleton;
import com.google.inject.matcher.Matchers;

/** Binds what tells of KairosDB. Named in kairosdb.conf as {@code kairosdb.service.kairoscope}. */
public class StatusModule extends AbstractModule {
  @Override
  protected void configure() {
    Reporters reporters = new Reporters();
    bindListener(Matchers.any(), reporters);
    bind(Reporters.class).toInstance(reporters);
    bind(StatusResource.class).in(Singleton.class);
    bind(StoreMetrics.class).in(Singleton.class);
    bind(MetricsResource.class).in(Singleton.class);
  }
}
