package io.kairoscope.kairosdb.door;

import com.google.inject.Singleton;
import com.google.inject.servlet.ServletModule;

/**
 * The door for points over REST. Named in kairosdb.conf as {@code kairosdb.service.door}, with the
 * coalescing queue; the other modules of this package need it.
 */
public class DoorModule extends ServletModule {
  @Override
  protected void configureServlets() {
    bind(DoorSettings.class).in(Singleton.class);
    bind(DoorStats.class).in(Singleton.class);
    bind(NotTakenMapper.class).in(Singleton.class);
    bind(DoorFilter.class).in(Singleton.class);
    // A filter, as all paths are one servlet to KairosDB: Jersey's.
    filter("/*").through(DoorFilter.class);
  }
}
