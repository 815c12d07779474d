package io.kairoscope.kairosdb.door;

import com.google.inject.AbstractModule;
import com.google.inject.Provides;
import com.google.inject.Singleton;
import com.google.inject.util.Modules;
import io.kairoscope.kairosdb.queue.PointQueue;
import java.util.ArrayList;
import java.util.List;
import javax.inject.Named;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.datastore.Datastore;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.datastore.cassandra.CassandraDatastore;
import org.kairosdb.datastore.cassandra.CassandraModule;
import org.kairosdb.datastore.cassandra.ClusterConnection;

/**
 * KairosDB's Cassandra datastore, with what the coalescing queue needs around it. Takes the place
 * of CassandraModule as {@code kairosdb.service.datastore}, with the coalescing queue.
 *
 * <p>CassandraDatastore itself stays what it was, one of it, for all that ask for it by its class:
 * service keys, the event bus, the job that cleans its cache.
 */
public class StoreModule extends AbstractModule {
  private static final long POLL_MS = 1_000;

  private final KairosRootConfig config;

  public StoreModule(KairosRootConfig config) {
    this.config = config;
  }

  @Override
  protected void configure() {
    install(Modules.override(new CassandraModule(config)).with(new Around()));
  }

  private static class Around extends AbstractModule {
    @Override
    protected void configure() {
      bind(Deletes.class).in(Singleton.class);
    }

    @Provides
    @Singleton
    Datastore datastore(
        CassandraDatastore store,
        QueueProcessor queue,
        Deletes deletes,
        DoorSettings settings,
        DoorStats stats,
        @Named("write_cluster") ClusterConnection write,
        @Named("meta_cluster") ClusterConnection meta,
        List<ClusterConnection> read) {
      List<ClusterConnection> all = new ArrayList<>(read);
      all.add(write);
      all.add(meta);
      prepare(all);
      return new FreshDatastore(store, (PointQueue) queue, deletes, settings, stats);
    }

    /** At once; or, with start_async, when they are connected. */
    private static void prepare(List<ClusterConnection> connections) {
      connections.removeIf(SpareReads::prepare);
      if (connections.isEmpty()) {
        return;
      }
      Thread later =
          new Thread(
              () -> {
                try {
                  while (!connections.isEmpty()) {
                    Thread.sleep(POLL_MS);
                    connections.removeIf(SpareReads::prepare);
                  }
                } catch (InterruptedException stop) {
                  // the process ends
                }
              },
              "kairoscope-spare-reads");
      later.setDaemon(true);
      later.start();
    }
  }
}
