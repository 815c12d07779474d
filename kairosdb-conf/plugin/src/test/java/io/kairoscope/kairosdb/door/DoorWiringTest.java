package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.Key;
import com.google.inject.Module;
import com.google.inject.Provides;
import com.google.inject.Singleton;
import com.google.inject.Stage;
import com.google.inject.util.Modules;
import io.kairoscope.kairosdb.StatusModule;
import io.kairoscope.kairosdb.queue.AnyCluster;
import io.kairoscope.kairosdb.queue.TestConfig;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import javax.inject.Named;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosDBService;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.datastore.Datastore;
import org.kairosdb.core.datastore.KairosDatastore;
import org.kairosdb.core.datastore.QueryMetric;
import org.kairosdb.core.datastore.ServiceKeyStore;
import org.kairosdb.core.exception.DatastoreException;
import org.kairosdb.core.health.HealthStatus;
import org.kairosdb.core.http.WebServletModule;
import org.kairosdb.core.telnet.TelnetServer;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.CassandraDatastore;
import org.kairosdb.datastore.cassandra.ClusterConnection;

/** All modules that kairosdb.conf names with the coalescing queue, together. Nothing is started. */
class DoorWiringTest {
  private static Injector injector(UnaryOperator<Module> web) throws Exception {
    Map<String, Object> settings = new HashMap<>();
    settings.put(
        "kairosdb.queue_processor.class",
        "io.kairoscope.kairosdb.queue.CoalescingQueueProcessor");
    KairosRootConfig config = TestConfig.of(settings);
    return Guice.createInjector(
        Stage.TOOL,
        new CoreModule(config),
        web.apply(new WebServletModule(config)),
        new TelnetModule(config),
        new StatusModule(),
        new HealthModule(),
        new DoorModule(),
        new StoreModule(config));
  }

  private static long count(Injector injector, Class<?> type) {
    return injector.getAllBindings().keySet().stream()
        .filter(key -> type.isAssignableFrom(key.getTypeLiteral().getRawType()))
        .count();
  }

  @Test
  void kairosDbStartsEachServiceOnce() throws Exception {
    Injector injector = injector(web -> web);
    injector.getBinding(Key.get(Datastore.class));
    injector.getBinding(Key.get(ServiceKeyStore.class));
    injector.getBinding(Key.get(CassandraDatastore.class));
    assertEquals(
        1,
        injector.getAllBindings().keySet().stream()
            .filter(key -> TelnetServer.class.isAssignableFrom(key.getTypeLiteral().getRawType()))
            .count());
    List<String> services =
        injector.getAllBindings().keySet().stream()
            .map(key -> key.getTypeLiteral().getRawType())
            .filter(KairosDBService.class::isAssignableFrom)
            .map(Class::getSimpleName)
            .toList();
    assertTrue(services.contains("Deletes"), "" + services);
    assertEquals(3, count(injector, HealthStatus.class));
  }

  @Test
  void itGoesWithTheSecureModuleToo() throws Exception {
    // As SecureModule installs it, without its keys.
    injector(web -> Modules.override(web).with(binder -> {}));
  }

  /** A cluster that is not there yet, as with start_async. */
  private static class Away extends AbstractModule {
    private final FakeQueue queue;

    Away(FakeQueue queue) {
      this.queue = queue;
    }

    @Override
    protected void configure() {
      bind(FakeQueue.class).toInstance(queue);
    }

    @Provides
    @Singleton
    @Named("write_cluster")
    ClusterConnection write(CassandraConfiguration configuration) {
      return AnyCluster.of(configuration, false);
    }

    @Provides
    @Singleton
    @Named("meta_cluster")
    ClusterConnection meta(@Named("write_cluster") ClusterConnection write) {
      return write;
    }
  }

  @Test
  void whoeverAsksForTheDatastoreGetsTheOneThatFlushes() throws Exception {
    FakeQueue queue = new FakeQueue();
    KairosRootConfig config =
        TestConfig.of(Map.of("kairosdb.queue_processor.class", FakeQueue.class.getName()));
    Injector injector =
        Guice.createInjector(
            Modules.override(
                    new CoreModule(config),
                    new WebServletModule(config),
                    new DoorModule(),
                    new StoreModule(config))
                .with(new Away(queue)));
    KairosDatastore kairos = injector.getInstance(KairosDatastore.class);
    assertInstanceOf(FreshDatastore.class, kairos.getDatastore());
    assertSame(kairos.getDatastore(), injector.getInstance(Datastore.class));
    assertSame(
        injector.getInstance(CassandraDatastore.class),
        injector.getInstance(ServiceKeyStore.class));
    assertThrows(
        DatastoreException.class,
        () -> {
          queue.flushes = false;
          kairos.delete(new QueryMetric(1, 2, 0, "m"));
        });
    assertEquals(List.of("flush m 30000"), queue.calls);
  }

  @Test
  void settingsHaveDefaults() throws Exception {
    DoorSettings defaults = new DoorSettings(TestConfig.of(Map.of()));
    assertEquals(32L << 20, defaults.maxRequestBytes());
    assertEquals(2_000, defaults.flushOnQueryMs());
    assertEquals(30_000, defaults.flushOnDeleteMs());
    assertTrue(defaults.ingest());
    assertFalse(
        new DoorSettings(TestConfig.of(Map.of("kairosdb.server.type", "QUERY, DELETE"))).ingest());
  }
}
