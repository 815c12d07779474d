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
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.Statement;
import com.datastax.driver.core.policies.FallthroughRetryPolicy;
import com.google.common.hash.HashFunction;
import com.google.common.hash.Hashing;
import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.MoreExecutors;
import io.kairoscope.kairosdb.metrics.Histogram;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Date;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.LongSupplier;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.datastore.cassandra.KairoscopeRowKeys;
import org.kairosdb.datastore.cassandra.RowSpec;

/** KairosDB's tables over its own connection, statements and settings: what it writes, batched. */
final class CqlStore implements Store {
  private static final Place NOWHERE = new Place(List.of(), 0, 0);
  // Nodes that a partition is sent to: its replicas, of which there are seldom more.
  private static final int NODES = 4;
  // Lists of nodes that are kept: some for each replica; more are of a ring that changed.
  private static final int LISTS = 10_000;
  // Cassandra's token, but for keys that end in characters beyond ASCII, where Cassandra's own has
  // a sign error; these are only put in another place among their neighbours.
  private static final HashFunction TOKEN = Hashing.murmur3_128();

  private final ClusterConnection cluster;
  private final String clusterName;
  private final ConsistencyLevel consistency;
  private final Ttl ttl;
  private final QueueStats stats;
  private final LongSupplier nowMs;
  private final Canaries canaries;
  private final Shards shards = new Shards();
  private final Replicas replicas = new Replicas();
  private final Map<Host, Node> nodes = new ConcurrentHashMap<>();
  private final Map<List<Node>, List<Node>> lists = new ConcurrentHashMap<>();

  /**
   * @param ttl by this configuration; see {@link #ttl}
   */
  CqlStore(
      ClusterConnection cluster,
      CassandraConfiguration configuration,
      QueueStats stats,
      Ttl ttl,
      LongSupplier nowMs) {
    this.cluster = cluster;
    this.ttl = ttl;
    this.stats = stats;
    this.nowMs = nowMs;
    clusterName = configuration.getWriteCluster().getClusterName();
    consistency = configuration.getWriteCluster().getWriteConsistencyLevel();
    canaries = new Canaries(cluster, clusterName, nowMs);
  }

  /**
   * Times to live as KairosDB's configuration has them.
   *
   * @param latestExpiryS s since 1970; Long.MAX_VALUE is no limit
   */
  static Ttl ttl(CassandraConfiguration configuration, long latestExpiryS) {
    return new Ttl(
        configuration.getDatapointTtl(),
        configuration.isForceDefaultDatapointTtl(),
        configuration.isAlignDatapointTtlWithTimestamp(),
        latestExpiryS);
  }

  @Override
  public List<Row> rows(Group group) {
    RowSpec spec = cluster.getRowSpec();
    Series series = group.series();
    List<Point> points = group.points();
    long rowTime = spec.calculateRowTime(points.get(0).time());
    for (int i = 1; i < points.size(); i++) {
      if (spec.calculateRowTime(points.get(i).time()) != rowTime) {
        return rowsOf(series, points, spec);
      }
    }
    // Nearly always: a row is three weeks long.
    return List.of(row(series, rowTime, points, spec));
  }

  private List<Row> rowsOf(Series series, List<Point> points, RowSpec spec) {
    Map<Long, List<Point>> byRow = new TreeMap<>();
    for (Point point : points) {
      byRow
          .computeIfAbsent(spec.calculateRowTime(point.time()), row -> new ArrayList<>())
          .add(point);
    }
    List<Row> rows = new ArrayList<>(byRow.size());
    byRow.forEach((time, some) -> rows.add(row(series, time, some, spec)));
    return rows;
  }

  private Row row(Series series, long rowTime, List<Point> points, RowSpec spec) {
    long now = nowMs.getAsLong();
    long expiry = 0;
    for (int i = 0; i < points.size(); i++) {
      expiry = Math.max(expiry, ttl.expiryS(points.get(i), now));
    }
    int indexTtl = ttl.index(expiry, spec.getRowWidthInMillis() / 1_000, now);
    RowKey key = new RowKey(series, clusterName, rowTime);
    return new Row(key, indexTtl, untilS(indexTtl, now), expiry, points);
  }

  private static long untilS(int indexTtlS, long nowMs) {
    return indexTtlS == 0 ? Long.MAX_VALUE : nowMs / 1_000 + indexTtlS;
  }

  @Override
  public long defaultUntilS(RowKey rowKey) {
    long now = nowMs.getAsLong();
    long width = cluster.getRowSpec().getRowWidthInMillis();
    long expiry = ttl.defaultExpiryS(rowKey.getTimestamp() + width, now);
    return untilS(ttl.index(expiry, width / 1_000, now), now);
  }

  @Override
  public ByteBuffer key(RowKey rowKey) {
    return DATA_POINTS_ROW_KEY_SERIALIZER.toByteBuffer(rowKey);
  }

  @Override
  public Place place(ByteBuffer key) {
    Statement statement = new SimpleStatement("").setRoutingKey(key.duplicate());
    Iterator<Host> plan =
        cluster.getLoadBalancingPolicy().newQueryPlan(cluster.getKeyspace(), statement);
    List<Node> found = new ArrayList<>(NODES);
    while (found.size() < NODES && plan.hasNext()) {
      found.add(node(plan.next()));
    }
    if (found.isEmpty()) {
      return NOWHERE;
    }
    if (lists.size() > LISTS) {
      lists.clear();
    }
    long token = TOKEN.hashBytes(key.duplicate()).asLong();
    List<Node> list = lists.computeIfAbsent(List.copyOf(found), same -> same);
    return new Place(list, shards.shard(found.get(0).host, token), token);
  }

  @Override
  public Object copies(ByteBuffer key) {
    Session session = cluster.getSession();
    Set<Host> hosts =
        session == null
            ? Set.of()
            : replicas.of(session.getCluster().getMetadata(), cluster.getKeyspace(), key);
    // Not known, as without the schema: each on its own then.
    return hosts.isEmpty() ? key : hosts;
  }

  private Node node(Host host) {
    return nodes.computeIfAbsent(host, one -> new Node(one.toString(), one));
  }

  @Override
  public CompletionStage<Integer> writePoints(Node node, List<Partition> partitions) {
    RowSpec spec = cluster.getRowSpec();
    long now = nowMs.getAsLong();
    PointStatements statements = new PointStatements(cluster.psDataPointsInsert);
    BatchStatement batch = batch(node);
    int expired = 0;
    // ScyllaDB's driver sends a batch to the shard of its first partition. Partitions come in the
    // order of their shards: if a batch of several began with the first, the last shards got none.
    int first = ThreadLocalRandom.current().nextInt(partitions.size());
    for (int i = 0; i < partitions.size(); i++) {
      Partition partition = partitions.get((first + i) % partitions.size());
      List<Point> points = partition.points();
      long rowTime = partition.rowKey().getTimestamp();
      for (int j = 0; j < points.size(); j++) {
        Point point = points.get(j);
        int left = ttl.left(point, now);
        if (left < 0) {
          // Its time is over: there is nothing to store.
          expired++;
        } else {
          int column = spec.getColumnName(rowTime, point.time());
          batch.add(statements.of(partition.key(), column, point, left));
        }
      }
    }
    int over = expired;
    if (batch.size() == 0) {
      return CompletableFuture.completedFuture(over);
    }
    return execute(batch)
        .thenApply(
            result -> {
              stats.pointsBatch.observe(batch.size());
              return over;
            });
  }

  @Override
  public CompletionStage<?> writeIndex(Node node, List<IndexEntry> entries, long atMs) {
    BatchStatement rows = batch(node);
    BatchStatement names = batch(node);
    rows.setDefaultTimestamp(atMs);
    names.setDefaultTimestamp(atMs);
    long now = nowMs.getAsLong();
    int keys = 0;
    for (IndexEntry entry : entries) {
      RowKey key = entry.rowKey();
      int ttlS = ttl.clamp(entry.ttlS(), now);
      if (entry.ofMetric()) {
        rows.add(rowTime(key, ttlS));
        names.add(
            new BoundStatement(cluster.psStringIndexInsert)
                .setBytesUnsafe(0, serializeString(ROW_KEY_METRIC_NAMES))
                .setString(1, key.getMetricName()));
      } else {
        keys++;
        rows.addAll(KairoscopeRowKeys.inserts(cluster, key, ttlS));
      }
    }
    int rowKeys = keys;
    int metrics = names.size();
    int tags = rows.size() - rowKeys - metrics;
    CompletableFuture<Void> written =
        execute(rows)
            .thenRun(
                () -> {
                  observe(stats.rowKeysBatch, rowKeys);
                  observe(stats.tagIndexBatch, tags);
                  observe(stats.rowTimesBatch, metrics);
                });
    if (metrics == 0) {
      return written;
    }
    return CompletableFuture.allOf(
        written, execute(names).thenRun(() -> observe(stats.namesBatch, metrics)));
  }

  /** A batch has rows of several tables, and need not have some of each. */
  private static void observe(Histogram batches, int rows) {
    if (rows > 0) {
      batches.observe(rows);
    }
  }

  private Statement rowTime(RowKey key, int ttlS) {
    return cluster
        .psRowKeyTimeInsert
        .bind()
        .setString(0, key.getMetricName())
        .setString(1, DATA_POINTS_TABLE_NAME)
        .setTimestamp(2, new Date(key.getTimestamp()))
        .setInt(3, ttlS);
  }

  @Override
  public Table table(IndexEntry entry) {
    return !entry.ofMetric() && KairoscopeRowKeys.inserts(cluster, entry.rowKey(), 0).size() > 1
        ? Table.TAG_INDEX
        : Table.INDEX;
  }

  @Override
  public CompletionStage<?> canary(Table table, Node node, Place like) {
    BatchStatement batch = batch(node);
    if (table == Table.POINTS) {
      batch.add(canaries.point(this, like));
    } else {
      batch.addAll(canaries.index(table));
    }
    return execute(batch);
  }

  @Override
  public void prepareCanary() {
    place(key(rows(canaries.group()).get(0).key()));
  }

  private BatchStatement batch(Node node) {
    BatchStatement batch = new BatchStatement(BatchStatement.Type.UNLOGGED);
    batch.setConsistencyLevel(consistency);
    // The same points and row keys once more change nothing.
    batch.setIdempotent(true);
    // What failed is tried again by us, with pauses, and not at once by the driver as well.
    batch.setRetryPolicy(FallthroughRetryPolicy.INSTANCE);
    if (node.host != null) {
      batch.setHost(node.host);
    }
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
            answer.completeExceptionally(error);
          }
        },
        MoreExecutors.directExecutor());
    return answer;
  }
}
