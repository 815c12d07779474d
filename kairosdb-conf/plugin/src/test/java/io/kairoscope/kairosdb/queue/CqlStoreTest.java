package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.FakeHost;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.policies.FallthroughRetryPolicy;
import com.google.common.collect.ImmutableSortedMap;
import com.google.common.util.concurrent.SettableFuture;
import com.google.inject.Guice;
import io.kairoscope.kairosdb.queue.Store.IndexEntry;
import io.kairoscope.kairosdb.queue.Store.Row;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.CassandraModule;
import org.kairosdb.datastore.cassandra.RowSpec;

/** The statements are those that KairosDB's queries expect, by its own row specification. */
class CqlStoreTest {
  private static final String PREFIX = "kairosdb.datastore.cassandra.";
  private static final Node NODE = new Node("any", null);
  private static final long NOW = 1_800_000_000_000L;

  private final QueueStats stats = new QueueStats();
  private FakeCluster cluster;
  private List<BatchStatement> sent;
  private List<SettableFuture<ResultSet>> answers;

  private CqlStore store(Map<String, ?> settings) throws IOException {
    return store(settings, Long.MAX_VALUE);
  }

  private CqlStore store(Map<String, ?> settings, long latestExpiryS) throws IOException {
    Map<String, Object> all = new HashMap<>(settings);
    all.put(PREFIX + "write_cluster.write_consistency_level", "LOCAL_QUORUM");
    KairosRootConfig config = TestConfig.of(all);
    CassandraConfiguration configuration =
        Guice.createInjector(new CoreModule(config), new CassandraModule(config))
            .getInstance(CassandraConfiguration.class);
    cluster = new FakeCluster(configuration);
    sent = cluster.sent;
    answers = cluster.answers;
    return new CqlStore(
        cluster,
        configuration,
        stats,
        CqlStore.ttl(configuration, latestExpiryS),
        () -> NOW);
  }

  private static Series series() {
    return new Series("metric", ImmutableSortedMap.of("tag", "value"), "kairos_double");
  }

  private static Point point(long time, int ttlS) {
    return new Point(0, time, NOW - 5, ttlS, new byte[] {1, 2, 3}, null);
  }

  private static Partition partition(CqlStore store, Row row) {
    ByteBuffer key = store.key(row.key());
    return new Partition(row.key(), key, store.place(key), new CompletableFuture<>(), row.points());
  }

  private BoundStatement statement(int batch, int at) {
    return (BoundStatement) List.copyOf(sent.get(batch).getStatements()).get(at);
  }

  @Test
  void aSeriesIsInOneRowForThreeWeeks() throws IOException {
    CqlStore store = store(Map.of());
    long width = RowSpec.DEFAULT_ROW_WIDTH;
    List<Point> points =
        List.of(point(10 * width, 0), point(11 * width - 1, 0), point(11 * width, 0));
    List<Row> rows = store.rows(new Group(series(), points));
    assertEquals(
        List.of(10 * width, 11 * width), rows.stream().map(r -> r.key().getTimestamp()).toList());
    assertEquals(points.subList(0, 2), rows.get(0).points());
    assertEquals("kairos_double", rows.get(0).key().getDataType());
    assertEquals(series().tags(), rows.get(0).key().getTags());
  }

  @Test
  void aPointIsWrittenWithTheTimeOfItsPut() throws IOException {
    CqlStore store = store(Map.of());
    long rowTime = 900 * RowSpec.DEFAULT_ROW_WIDTH;
    Row row = store.rows(new Group(series(), List.of(point(rowTime + 7, 60)))).get(0);
    store.writePoints(NODE, List.of(partition(store, row)));
    assertEquals(ConsistencyLevel.LOCAL_QUORUM, sent.get(0).getConsistencyLevel());
    assertTrue(sent.get(0).isIdempotent());
    BoundStatement insert = statement(0, 0);
    assertEquals(store.key(row.key()), insert.getBytesUnsafe(0));
    assertEquals(7, insert.getBytesUnsafe(1).getInt());
    assertEquals(ByteBuffer.wrap(new byte[] {1, 2, 3}), insert.getBytesUnsafe(2));
    assertEquals(60, insert.getInt(3));
    assertEquals(NOW - 5, insert.getLong(4));
  }

  @Test
  void anyPartitionOfABatchSaysWhichShardItGoesTo() throws IOException {
    CqlStore store = store(Map.of());
    List<Partition> partitions = new ArrayList<>();
    Set<ByteBuffer> keys = new HashSet<>();
    for (int i = 0; i < 3; i++) {
      long time = i * RowSpec.DEFAULT_ROW_WIDTH;
      Row row = store.rows(new Group(series(), List.of(point(time, 0)))).get(0);
      partitions.add(partition(store, row));
      keys.add(store.key(row.key()));
    }
    Set<ByteBuffer> firsts = new HashSet<>();
    for (int batch = 0; batch < 200; batch++) {
      store.writePoints(NODE, partitions);
      Set<ByteBuffer> written = new HashSet<>();
      for (int i = 0; i < 3; i++) {
        written.add(statement(batch, i).getBytesUnsafe(0));
      }
      assertEquals(keys, written, "each of them once");
      firsts.add(statement(batch, 0).getBytesUnsafe(0));
    }
    // One of three is never first in 200 batches less often than once in 10^34.
    assertEquals(keys, firsts);
  }

  private List<Integer> ttls(Map<String, ?> settings, Point... points) throws IOException {
    CqlStore store = store(settings);
    Row row = store.rows(new Group(series(), List.of(points))).get(0);
    CompletableFuture<?> written =
        store.writePoints(NODE, List.of(partition(store, row))).toCompletableFuture();
    if (sent.isEmpty()) {
      assertTrue(written.isDone(), "nothing to write is written");
      return List.of();
    }
    return sent.get(0).getStatements().stream().map(s -> ((BoundStatement) s).getInt(3)).toList();
  }

  @Test
  void timesToLiveAreThoseOfKairosDb() throws IOException {
    Point none = point(NOW - 10_000, 0);
    Point own = point(NOW - 9_999, 60);
    Map<String, Object> settings = new HashMap<>();
    assertEquals(List.of(0, 60), ttls(settings, none, own));
    settings.put(PREFIX + "datapoint_ttl", 1_000);
    assertEquals(List.of(1_000, 60), ttls(settings, none, own));
    settings.put(PREFIX + "align_datapoint_ttl_with_timestamp", true);
    assertEquals(List.of(990, 51), ttls(settings, none, own));
    assertEquals(List.of(), ttls(settings, point(NOW - 60_000, 60)));
    settings.put(PREFIX + "force_default_datapoint_ttl", true);
    assertEquals(List.of(990, 991), ttls(settings, none, own));
  }

  @Test
  void theIndexHasARowAsLongAsItsPoints() throws IOException {
    CqlStore store = store(Map.of());
    int width = (int) (RowSpec.DEFAULT_ROW_WIDTH / 1_000);
    List<Point> points = List.of(point(NOW, 60), point(NOW, 90));
    assertEquals(90 + width, store.rows(new Group(series(), points)).get(0).indexTtlS());
    points = List.of(point(NOW, 60), point(NOW, 0));
    assertEquals(0, store.rows(new Group(series(), points)).get(0).indexTtlS());
  }

  @Test
  void theIndexMayHaveToBeThereForPointsOfTheDefault() throws IOException {
    long width = RowSpec.DEFAULT_ROW_WIDTH;
    long nowS = NOW / 1_000;
    long rowTime = NOW / width * width;
    RowKey key = new RowKey(series(), "any", rowTime);
    Map<String, Object> settings = new HashMap<>();
    assertEquals(Long.MAX_VALUE, store(settings).defaultUntilS(key));
    settings.put(PREFIX + "datapoint_ttl", 1_000);
    assertEquals(nowS + 1_000 + width / 1_000, store(settings).defaultUntilS(key));
    settings.put(PREFIX + "align_datapoint_ttl_with_timestamp", true);
    long rowEndS = (rowTime + width) / 1_000;
    assertEquals(rowEndS + 1_000 + width / 1_000, store(settings).defaultUntilS(key));
    // All of these are over.
    RowKey old = new RowKey(series(), "any", 0);
    assertEquals(nowS + width / 1_000, store(settings).defaultUntilS(old));
  }

  @Test
  void theIndexIsWrittenWhenAllOfItIs() throws Exception {
    CqlStore store = store(Map.of());
    Series longs = new Series("metric", series().tags(), "kairos_long");
    RowKey key = new RowKey(longs, "any", 5_000);
    CompletableFuture<?> written =
        store
            .writeIndex(
                NODE, List.of(new IndexEntry(key, 77, false), new IndexEntry(key, 77, true)), NOW)
            .toCompletableFuture();
    assertEquals(2, sent.get(0).size());
    assertEquals(NOW, sent.get(0).getDefaultTimestamp());
    BoundStatement row = statement(0, 0);
    assertEquals("metric", row.getString(0));
    assertEquals("data_points", row.getString(1));
    assertEquals(new Date(5_000), row.getTimestamp(2));
    assertEquals("kairos_long", row.getString(3));
    assertEquals(series().tags(), row.getMap(4, String.class, String.class));
    assertEquals(77, row.getInt(5));
    BoundStatement time = statement(0, 1);
    assertEquals("metric", time.getString(0));
    assertEquals("data_points", time.getString(1));
    assertEquals(new Date(5_000), time.getTimestamp(2));
    assertEquals(77, time.getInt(3));
    assertEquals(1, sent.get(1).size());
    BoundStatement name = statement(1, 0);
    assertEquals(
        ByteBuffer.wrap("metric_names".getBytes(StandardCharsets.UTF_8)), name.getBytesUnsafe(0));
    assertEquals("metric", name.getString(1));
    answers.get(1).set(null);
    assertTrue(!written.isDone());
    answers.get(0).set(null);
    written.get();
  }

  @Test
  void aPointIsNotYoungerForHavingWaited() throws Exception {
    CqlStore store = store(Map.of());
    Point old = new Point(0, NOW - 1, NOW - 40_000, 60, new byte[1], null);
    Point over = new Point(1, NOW, NOW - 60_000, 60, new byte[1], null);
    Row row = store.rows(new Group(series(), List.of(old, over))).get(0);
    CompletableFuture<Integer> written =
        store.writePoints(NODE, List.of(partition(store, row))).toCompletableFuture();
    assertEquals(1, sent.get(0).size());
    assertEquals(20, statement(0, 0).getInt(3));
    answers.get(0).set(null);
    assertEquals(1, written.get(), "the other is told as expired");
  }

  @Test
  void theIndexHasNoTimeToLiveThatTheStoreRefuses() throws IOException {
    CqlStore store = store(Map.of());
    Row row = store.rows(new Group(series(), List.of(point(NOW, Ttl.MAX_S)))).get(0);
    assertEquals(Ttl.MAX_S, row.indexTtlS());
    // An entry from before an outage, at a store that takes nothing that lives after a day.
    CqlStore soon = store(Map.of(), NOW / 1_000 + 10_000);
    RowKey key = new RowKey(series(), "any", 0);
    soon.writeIndex(NODE, List.of(new IndexEntry(key, 20_000, false)), NOW);
    int ttl = statement(0, 0).getInt(5);
    assertTrue(ttl < 10_000 && ttl > 9_000, "" + ttl);
  }

  @Test
  void noQueryFindsACanary() throws Exception {
    CqlStore store = store(Map.of(PREFIX + "align_datapoint_ttl_with_timestamp", true));
    Place anywhere = new Place(List.of(), 0, 0);
    CompletableFuture<?> points =
        store.canary(Store.Table.POINTS, NODE, anywhere).toCompletableFuture();
    assertEquals(1, sent.get(0).size(), "aligned or not, it is written");
    assertEquals(60, statement(0, 0).getInt(3));
    assertEquals(ConsistencyLevel.LOCAL_QUORUM, sent.get(0).getConsistencyLevel());
    answers.get(0).set(null);
    points.get();
    store.canary(Store.Table.INDEX, NODE, anywhere);
    for (int at = 0; at < 2; at++) {
      assertEquals("kairoscope_canary", statement(1, at).getString(1), "not in data_points");
    }
    assertEquals(
        ByteBuffer.wrap("kairoscope_canary".getBytes(StandardCharsets.UTF_8)),
        statement(1, 2).getBytesUnsafe(0));
    store.prepareCanary();
  }

  @Test
  void aBatchGoesToTheNodeThatWasChosenAndIsNotRepeatedByTheDriver() throws IOException {
    CqlStore store = store(Map.of());
    for (int port = 1; port <= 6; port++) {
      cluster.hosts.add(FakeHost.at(port));
    }
    Row row = store.rows(new Group(series(), List.of(point(NOW, 0)))).get(0);
    Partition partition = partition(store, row);
    List<Node> nodes = partition.place().nodes();
    assertEquals(4, nodes.size());
    assertSame(nodes, store.place(partition.key()).nodes(), "one list for all of a range");
    Node second = nodes.get(1);
    store.writePoints(second, List.of(partition));
    assertSame(second.host, sent.get(0).getHost());
    assertSame(FallthroughRetryPolicy.INSTANCE, sent.get(0).getRetryPolicy());
    store.writeIndex(second, List.of(new IndexEntry(partition.rowKey(), 0, true)), NOW);
    assertSame(second.host, sent.get(1).getHost());
    assertSame(second.host, sent.get(2).getHost());
    // A canary is found that is on the same replicas.
    store.canary(Store.Table.POINTS, second, partition.place());
    assertSame(second.host, sent.get(3).getHost());
    ByteBuffer key = statement(3, 0).getBytesUnsafe(0);
    assertEquals(nodes, store.place(key).nodes());
    assertTrue(!key.equals(partition.key()));
  }
}
