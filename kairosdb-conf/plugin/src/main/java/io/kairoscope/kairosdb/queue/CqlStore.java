package io.kairoscope.kairosdb.queue;

import static org.kairosdb.datastore.cassandra.CassandraDatastore.DATA_POINTS_ROW_KEY_SERIALIZER;
import static org.kairosdb.datastore.cassandra.CassandraDatastore.ROW_KEY_METRIC_NAMES;
import static org.kairosdb.datastore.cassandra.CassandraDatastore.serializeString;
import static org.kairosdb.datastore.cassandra.ClusterConnection.DATA_POINTS_TABLE_NAME;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Host;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.Statement;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.google.common.hash.HashFunction;
import com.google.common.hash.Hashing;
import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.MoreExecutors;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Date;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.LongSupplier;
import org.kairosdb.datastore.cassandra.BatchStats;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.KairoscopeRowKeys;
import org.kairosdb.datastore.cassandra.RowSpec;

/** KairosDB's tables over its own connection, statements and settings: what it writes, batched. */
final class CqlStore implements Store {
  // What Cassandra and ScyllaDB say, with nothing else to tell it by.
  private static final String TOO_LARGE = "Batch too large";
  private static final Place NOWHERE = new Place("", 0, 0);
  // Cassandra's token, but for keys that end in characters beyond ASCII, where Cassandra's own has
  // a sign error; these are only put in another place among their neighbours.
  private static final HashFunction TOKEN = Hashing.murmur3_128();

  private final ClusterConnection cluster;
  private final String clusterName;
  private final ConsistencyLevel consistency;
  private final int defaultTtlS;
  private final boolean forceDefaultTtl;
  private final boolean alignTtl;
  private final BatchStats batchStats;
  private final LongSupplier nowMs;
  private final Shards shards = new Shards();

  CqlStore(
      ClusterConnection cluster,
      CassandraConfiguration configuration,
      BatchStats batchStats,
      LongSupplier nowMs) {
    this.cluster = cluster;
    this.batchStats = batchStats;
    this.nowMs = nowMs;
    clusterName = configuration.getWriteCluster().getClusterName();
    consistency = configuration.getWriteCluster().getWriteConsistencyLevel();
    defaultTtlS = configuration.getDatapointTtl();
    forceDefaultTtl = configuration.isForceDefaultDatapointTtl();
    alignTtl = configuration.isAlignDatapointTtlWithTimestamp();
  }

  @Override
  public List<Row> rows(Group group) {
    RowSpec spec = cluster.getRowSpec();
    Map<Long, List<Point>> byRow = new TreeMap<>();
    for (Point point : group.points()) {
      long rowTime = spec.calculateRowTime(point.time());
      byRow.computeIfAbsent(rowTime, row -> new ArrayList<>()).add(point);
    }
    Series series = group.series();
    List<Row> rows = new ArrayList<>(byRow.size());
    byRow.forEach(
        (time, points) -> {
          DataPointsRowKey key =
              new DataPointsRowKey(
                  series.metric(), clusterName, time, series.type(), series.tags());
          rows.add(new Row(key, indexTtlS(points, spec), points));
        });
    return rows;
  }

  /** The index has a row for as long as any point can be in it. */
  private int indexTtlS(List<Point> points, RowSpec spec) {
    int longest = 0;
    for (Point point : points) {
      int ttl = ttlS(point);
      if (ttl == 0) {
        return 0;
      }
      longest = Math.max(longest, ttl);
    }
    return longest + (int) (spec.getRowWidthInMillis() / 1000);
  }

  /** Time to live from now on; 0 is for ever, and below 0 it is over. */
  private int ttlS(Point point) {
    int ttl = forceDefaultTtl || point.ttlS() == 0 ? defaultTtlS : point.ttlS();
    if (ttl == 0 || !alignTtl) {
      return ttl;
    }
    long left = ttl - (nowMs.getAsLong() - point.time()) / 1000;
    return left > 0 ? (int) Math.min(left, Integer.MAX_VALUE) : -1;
  }

  @Override
  public ByteBuffer key(DataPointsRowKey rowKey) {
    return DATA_POINTS_ROW_KEY_SERIALIZER.toByteBuffer(rowKey);
  }

  @Override
  public Place place(ByteBuffer key) {
    Statement statement = new SimpleStatement("").setRoutingKey(key.duplicate());
    Iterator<Host> plan =
        cluster.getLoadBalancingPolicy().newQueryPlan(cluster.getKeyspace(), statement);
    if (!plan.hasNext()) {
      return NOWHERE;
    }
    Host host = plan.next();
    long token = TOKEN.hashBytes(key.duplicate()).asLong();
    return new Place(host.toString(), shards.shard(host, token), token);
  }

  @Override
  public CompletionStage<?> writePoints(List<Partition> partitions) {
    RowSpec spec = cluster.getRowSpec();
    BatchStatement batch = batch();
    for (Partition partition : partitions) {
      long rowTime = partition.rowKey().getTimestamp();
      for (Point point : partition.points()) {
        int ttl = ttlS(point);
        // Its time is over: there is nothing to store.
        if (ttl >= 0) {
          ByteBuffer column = ByteBuffer.allocate(Integer.BYTES);
          column.putInt(0, spec.getColumnName(rowTime, point.time()));
          batch.add(
              new BoundStatement(cluster.psDataPointsInsert)
                  .setBytesUnsafe(0, partition.key().duplicate())
                  .setBytesUnsafe(1, column)
                  .setBytesUnsafe(2, ByteBuffer.wrap(point.value()))
                  .setInt(3, ttl)
                  .setLong(4, point.takenAt()));
        }
      }
    }
    if (batch.size() == 0) {
      return CompletableFuture.completedFuture(null);
    }
    return execute(batch).thenRun(() -> batchStats.addDatapointsBatch(batch.size()));
  }

  @Override
  public CompletionStage<?> writeIndex(List<IndexEntry> entries) {
    BatchStatement rows = batch();
    BatchStatement names = batch();
    for (IndexEntry entry : entries) {
      DataPointsRowKey key = entry.rowKey();
      String metric = key.getMetricName();
      rows.addAll(KairoscopeRowKeys.inserts(cluster, key, entry.ttlS()));
      if (entry.newMetric()) {
        rows.add(
            cluster
                .psRowKeyTimeInsert
                .bind()
                .setString(0, metric)
                .setString(1, DATA_POINTS_TABLE_NAME)
                .setTimestamp(2, new Date(key.getTimestamp()))
                .setInt(3, entry.ttlS()));
        names.add(
            new BoundStatement(cluster.psStringIndexInsert)
                .setBytesUnsafe(0, serializeString(ROW_KEY_METRIC_NAMES))
                .setString(1, metric));
      }
    }
    CompletableFuture<Void> written =
        execute(rows).thenRun(() -> batchStats.addRowKeyBatch(entries.size()));
    if (names.size() == 0) {
      return written;
    }
    int count = names.size();
    return CompletableFuture.allOf(
        written,
        execute(names)
            .thenRun(
                () -> {
                  batchStats.addNameBatch(count);
                  batchStats.addRowKeyTimeBatch(count);
                }));
  }

  private BatchStatement batch() {
    BatchStatement batch = new BatchStatement(BatchStatement.Type.UNLOGGED);
    batch.setConsistencyLevel(consistency);
    // The same points and row keys once more change nothing.
    batch.setIdempotent(true);
    return batch;
  }

  private CompletableFuture<ResultSet> execute(BatchStatement batch) {
    CompletableFuture<ResultSet> answer = new CompletableFuture<>();
    Futures.addCallback(
        cluster.executeAsync(batch),
        new FutureCallback<ResultSet>() {
          @Override
          public void onSuccess(ResultSet result) {
            answer.complete(result);
          }

          @Override
          public void onFailure(Throwable error) {
            boolean tooLarge =
                error instanceof InvalidQueryException
                    && String.valueOf(error.getMessage()).contains(TOO_LARGE);
            answer.completeExceptionally(tooLarge ? new TooLargeException(error) : error);
          }
        },
        MoreExecutors.directExecutor());
    return answer;
  }
}
