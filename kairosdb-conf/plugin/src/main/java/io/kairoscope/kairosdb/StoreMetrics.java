package io.kairoscope.kairosdb;

import io.kairoscope.kairosdb.metrics.Exposition;
import java.util.Map;
import java.util.function.LongSupplier;
import javax.inject.Inject;
import javax.inject.Named;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.RowSpec;
import org.kairosdb.datastore.cassandra.TimedString;

/** What KairosDB knows of its store: what it has cached, and when its rows end. */
final class StoreMetrics {
  private static final double MS = 1e3;

  private final CassandraConfiguration configuration;
  private final ClusterConnection cluster;
  private final DataCache<DataPointsRowKey> rowKeys;
  private final DataCache<TimedString> names;
  private final LongSupplier nowMs;

  @Inject
  StoreMetrics(
      CassandraConfiguration configuration,
      @Named("write_cluster") ClusterConnection cluster,
      DataCache<DataPointsRowKey> rowKeys,
      DataCache<TimedString> names) {
    this(configuration, cluster, rowKeys, names, System::currentTimeMillis);
  }

  StoreMetrics(
      CassandraConfiguration configuration,
      ClusterConnection cluster,
      DataCache<DataPointsRowKey> rowKeys,
      DataCache<TimedString> names,
      LongSupplier nowMs) {
    this.configuration = configuration;
    this.cluster = cluster;
    this.rowKeys = rowKeys;
    this.names = names;
    this.nowMs = nowMs;
  }

  void tell(Exposition to) {
    try {
      boolean readOnly = (boolean) Fields.get(ClusterConnection.class, cluster, "m_readonlyMode");
      to.gauge("kairosdb_read_only", "1 if KairosDB could not make its schema and writes nothing.")
          .value(readOnly ? 1 : 0);
      to.gauge("kairosdb_cache_entries", "What KairosDB knows to be in its index: row keys, names.")
          .value(size(rowKeys), "cache", "row_keys")
          .value(size(names), "cache", "names");
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
    to.gauge(
            "kairosdb_cache_limit_entries",
            "Entries that fit; with more series the index is written again and again.")
        .value(configuration.getRowKeyCacheSize(), "cache", "row_keys")
        .value(configuration.getStringCacheSize(), "cache", "names");
    RowSpec rows = cluster.getRowSpec();
    if (rows != null) { // with start_async there is none before the connection
      long width = rows.getRowWidthInMillis();
      to.gauge("kairosdb_row_width_seconds", "Time that a row of a series has room for.")
          .value(width / MS);
      to.gauge(
              "kairosdb_next_row_seconds",
              "Until the next row of all series begins, with an index entry for each at once.")
          .value((width - Math.floorMod(nowMs.getAsLong(), width)) / MS);
    }
  }

  /** Not by its set of keys, which would be a copy of all. */
  @SuppressWarnings("rawtypes") // as its class is
  private static int size(DataCache<?> cache) throws ReflectiveOperationException {
    return ((Map<?, ?>) Fields.get(DataCache.class, (DataCache) cache, "m_internalMap")).size();
  }
}
