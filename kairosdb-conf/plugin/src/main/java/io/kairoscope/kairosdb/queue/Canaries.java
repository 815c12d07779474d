package io.kairoscope.kairosdb.queue;

import com.datastax.driver.core.Statement;
import com.google.common.collect.ImmutableSortedMap;
import io.kairoscope.kairosdb.queue.Store.Table;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.kairosdb.datastore.cassandra.ClusterConnection;

/**
 * Rows that any store takes, written with KairosDB's own statements, but where no query looks: the
 * points have no index, and the index is of another table's rows and under another name.
 */
final class Canaries {
  static final String METRIC = "kairoscope.canary";
  // Where queries look for 'data_points', and metric names.
  private static final String TABLE_NAME = "kairoscope_canary";
  private static final int TTL_S = 60;
  // Canaries to choose from, so that one lives on the nodes that are asked for.
  private static final int KEYS = 256;

  private final ClusterConnection cluster;
  private final String clusterName;
  private final LongSupplier nowMs;
  private final Map<List<Node>, RowKey> keys = new ConcurrentHashMap<>();

  Canaries(ClusterConnection cluster, String clusterName, LongSupplier nowMs) {
    this.cluster = cluster;
    this.clusterName = clusterName;
    this.nowMs = nowMs;
  }

  Group group() {
    return new Group(series(0), List.of(point()));
  }

  private static Series series(int number) {
    return new Series(
        METRIC, ImmutableSortedMap.of("canary", Integer.toString(number)), "kairos_long");
  }

  private Point point() {
    return new Point(0, 0, nowMs.getAsLong(), TTL_S, new byte[] {2}, null);
  }

  /** A point on the same nodes, if there is such a one, so that it meets the same replicas. */
  Statement point(Store store, Place like) {
    RowKey rowKey = keys.computeIfAbsent(like.nodes(), nodes -> find(store, nodes));
    // With its own time to live, whatever the configuration says of others.
    return new PointStatements(cluster.psDataPointsInsert).of(store.key(rowKey), 0, point(), TTL_S);
  }

  private RowKey find(Store store, List<Node> nodes) {
    RowKey first = new RowKey(series(0), clusterName, 0);
    RowKey key = first;
    for (int number = 1; number < KEYS; number++) {
      if (store.place(store.key(key)).nodes().equals(nodes)) {
        return key;
      }
      key = new RowKey(series(number), clusterName, 0);
    }
    return first;
  }

  List<Statement> index(Table table) {
    Date time = new Date(0);
    List<Statement> statements = new ArrayList<>();
    Map<String, String> tags = Map.of("canary", "0");
    statements.add(
        cluster
            .psRowKeyInsert
            .bind()
            .setString(0, METRIC)
            .setString(1, TABLE_NAME)
            .setTimestamp(2, time)
            .setString(3, "kairos_long")
            .setMap(4, tags)
            .setInt(5, TTL_S));
    if (table == Table.TAG_INDEX) {
      statements.add(
          cluster
              .psTagIndexedRowKeyInsert
              .bind()
              .setString(0, METRIC)
              .setString(1, TABLE_NAME)
              .setTimestamp(2, time)
              .setString(3, "kairos_long")
              .setString(4, "canary=0")
              .setInt(5, 0)
              .setMap(6, tags)
              .setInt(7, TTL_S));
      return statements;
    }
    statements.add(
        cluster
            .psRowKeyTimeInsert
            .bind()
            .setString(0, METRIC)
            .setString(1, TABLE_NAME)
            .setTimestamp(2, time)
            .setInt(3, TTL_S));
    // The one row without a time to live; it is always the same.
    statements.add(
        cluster
            .psStringIndexInsert
            .bind()
            .setBytesUnsafe(0, ByteBuffer.wrap(TABLE_NAME.getBytes(StandardCharsets.UTF_8)))
            .setString(1, METRIC));
    return statements;
  }
}
