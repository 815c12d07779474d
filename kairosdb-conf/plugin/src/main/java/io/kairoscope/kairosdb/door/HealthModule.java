package io.kairoscope.kairosdb.door;

import com.google.inject.AbstractModule;
import com.google.inject.Singleton;
import com.google.inject.util.Modules;
import org.kairosdb.core.datastore.KairosDatastore;
import org.kairosdb.core.health.DatastoreQueryHealthCheck;
import org.kairosdb.core.health.HealthCheckModule;

/**
 * KairosDB's health check with the queue in it, and with an end. Takes the place of
 * HealthCheckModule as {@code kairosdb.service.health}, with the coalescing queue.
 */
public class HealthModule extends AbstractModule {
  @Override
  protected void configure() {
    install(Modules.override(new HealthCheckModule()).with(new Checks()));
  }

  private static class Checks extends AbstractModule {
    @Override
    protected void configure() {
      bind(QueueHealthStatus.class).in(Singleton.class);
      try {
        // Not to(…): KairosDB makes a check of each binding, and would have both.
        bind(DatastoreQueryHealthCheck.class)
            .toConstructor(PatientDatastoreCheck.class.getConstructor(KairosDatastore.class))
            .in(Singleton.class);
      } catch (NoSuchMethodException error) {
        addError(error);
      }
    }
  }
}
