package io.kairoscope.kairosdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.google.inject.Guice;
import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.Parsed;
import io.kairoscope.kairosdb.queue.AnyCluster;
import io.kairoscope.kairosdb.queue.TestConfig;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.CassandraModule;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;

/** Caches as full as they are, and rows that end when KairosDB's do. */
class StoreMetricsTest {
  private static final long ROW_MS = 1_814_400_000;

  private final DataCache<DataPointsRowKey> rowKeys = new DataCache<>(5);
  private final DataCache<TimedString> names = new DataCache<>(5);

  private Parsed read(boolean connected, long nowMs) throws Exception {
    KairosRootConfig config =
        TestConfig.of(Map.of("kairosdb.datastore.cassandra.row_key_cache_size", 7));
    CassandraConfiguration configuration =
        Guice.createInjector(new CoreModule(config), new CassandraModule(config))
            .getInstance(CassandraConfiguration.class);
    ClusterConnection cluster = AnyCluster.of(configuration, connected);
    Exposition to = new Exposition();
    new StoreMetrics(configuration, cluster, rowKeys, names, () -> nowMs).tell(to);
    return new Parsed(to.toString());
  }

  @Test
  void theNextRowBeginsWhenItDoesInKairosDb() throws Exception {
    assertEquals(1_814_400, read(true, 900 * ROW_MS).value("kairosdb_next_row_seconds"));
    assertEquals(0.001, read(true, 901 * ROW_MS - 1).value("kairosdb_next_row_seconds"));
    assertEquals(1_814_400, read(true, 0).value("kairosdb_row_width_seconds"));
  }

  @Test
  void cachesAreToldWithTheirLimits() throws Exception {
    for (int i = 0; i < 3; i++) {
      rowKeys.cacheItem(new DataPointsRowKey("metric", "cluster", i * ROW_MS, "type"));
    }
    Parsed all = read(true, 0);
    assertEquals(3, all.value("kairosdb_cache_entries{cache=\"row_keys\"}"));
    assertEquals(0, all.value("kairosdb_cache_entries{cache=\"names\"}"));
    assertEquals(7, all.value("kairosdb_cache_limit_entries{cache=\"row_keys\"}"));
    assertEquals(0, all.value("kairosdb_read_only"));
  }

  @Test
  void beforeTheConnectionThereIsNoRow() throws Exception {
    assertFalse(read(false, 0).families().containsKey("kairosdb_next_row_seconds"));
  }
}
