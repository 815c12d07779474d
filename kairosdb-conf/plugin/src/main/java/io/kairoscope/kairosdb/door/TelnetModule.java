package io.kairoscope.kairosdb.door;

import com.google.inject.AbstractModule;
import com.google.inject.Singleton;
import com.google.inject.util.Modules;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.core.telnet.CommandProvider;
import org.kairosdb.core.telnet.TelnetServer;
import org.kairosdb.core.telnet.TelnetServerModule;

/**
 * KairosDB's telnet server with the coalescing queue's door. Takes the place of TelnetServerModule
 * as {@code kairosdb.service.telnet}, with the coalescing queue.
 */
public class TelnetModule extends AbstractModule {
  private final KairosRootConfig config;

  public TelnetModule(KairosRootConfig config) {
    this.config = config;
  }

  @Override
  protected void configure() {
    install(Modules.override(new TelnetServerModule(config)).with(new Server()));
  }

  private static class Server extends AbstractModule {
    @Override
    protected void configure() {
      try {
        // Not to(…): that would be a second binding of a service, and so a second start.
        bind(TelnetServer.class)
            .toConstructor(
                TelnetDoor.class.getConstructor(
                    String.class,
                    int.class,
                    int.class,
                    CommandProvider.class,
                    QueueProcessor.class,
                    KairosDataPointFactory.class,
                    DoorStats.class))
            .in(Singleton.class);
      } catch (NoSuchMethodException error) {
        addError(error);
      }
    }
  }
}
