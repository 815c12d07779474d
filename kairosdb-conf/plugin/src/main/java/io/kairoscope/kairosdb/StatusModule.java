package io.kairoscope.kairosdb;

import com.google.inject.AbstractModule;
import com.google.inject.Singleton;

/** Binds the status resource. Named in kairosdb.conf as {@code kairosdb.service.kairoscope}. */
public class StatusModule extends AbstractModule {
  @Override
  protected void configure() {
    bind(StatusResource.class).in(Singleton.class);
  }
}
