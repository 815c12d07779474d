package org.kairosdb.datastore.cassandra;

import com.datastax.driver.core.Statement;
import java.util.List;

/**
 * KairosDB's own statements for a new row key, with or without its index by tags.
 *
 * <p>In KairosDB's package, since the interface that makes them is visible there only. That needs
 * no reflection and is checked by the compiler; it works as the plugin is on the same class path,
 * not in a plugin folder with a class loader of its own.
 */
public final class KairoscopeRowKeys {
  private KairoscopeRowKeys() {}

  public static List<Statement> inserts(ClusterConnection cluster, DataPointsRowKey key, int ttlS) {
    return cluster.getRowKeyLookupForMetric(key.getMetricName()).createInsertStatements(key, ttlS);
  }
}
