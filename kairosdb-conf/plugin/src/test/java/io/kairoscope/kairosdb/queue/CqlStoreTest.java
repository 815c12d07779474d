package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.OverloadedException;
import com.google.common.collect.ImmutableSortedMap;
import com.google.common.util.concurrent.SettableFuture;
import com.google.inject.Guice;
import io.kairoscope.kairosdb.queue.Store.IndexEntry;
import io.kairoscope.kairosdb.queue.Store.Row;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.datastore.cassandra.BatchStats;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.CassandraModule;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.RowSpec;

/** The statements are those that KairosDB's queries expect, by its own row specification. */
class CqlStoreTest {
  private static final String PREFIX = "kairosdb.datastore.cassandra.";
  private static final long NOW = 1_800_000_000_000L;

  private List<BatchStatement> sent;
  private List<SettableFuture<ResultSet>> answers;

  private CqlStore store(Map<String, ?> settings) throws IOException {
    Map<String, Object> all = new HashMap<>(settings);
    all.put(PREFIX + "write_cluster.write_consistency_level", "LOCAL_QUORUM");
    KairosRootConfig config = TestConfig.of(all);
    CassandraConfiguration configuration =
        Guice.createInjector(new CoreModule(config), new CassandraModule(config))
            .getInstance(CassandraConfiguration.class);
    FakeCluster cluster = new FakeCluster(configuration);
    sent = cluster.sent;
    answers = cluster.answers;
    return new CqlStore(cluster, configuration, new BatchStats(), () -> NOW);
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
    store.writePoints(List.of(partition(store, row)));
    assertEquals(ConsistencyLevel.LOCAL_QUORUM, sent.get(0).getConsistencyLevel());
    assertTrue(sent.get(0).isIdempotent());
    BoundStatement insert = statement(0, 0);
    assertEquals(store.key(row.key()), insert.getBytesUnsafe(0));
    assertEquals(7, insert.getBytesUnsafe(1).getInt());
    assertEquals(ByteBuffer.wrap(new byte[] {1, 2, 3}), insert.getBytesUnsafe(2));
    assertEquals(60, insert.getInt(3));
    assertEquals(NOW - 5, insert.getLong(4));
  }

  private List<Integer> ttls(Map<String, ?> settings, Point... points) throws IOException {
    CqlStore store = store(settings);
    Row row = store.rows(new Group(series(), List.of(points))).get(0);
    CompletableFuture<?> written =
        store.writePoints(List.of(partition(store, row))).toCompletableFuture();
    if (sent.isEmpty()) {
      assertTrue(written.isDone(), "nothing to write is written");
      return List.of();
    }
    return sent.get(0).getStatements().stream().map(s -> ((BoundStatement) s).getInt(3)).toList();
  }

  @Test
  void timesToLiveAreThoseOfKairosDb() throws IOException {
    Point none = point(NOW - 10_000, 0);
    Point own = point(NOW - 10_000, 60);
    Map<String, Object> settings = new HashMap<>();
    assertEquals(List.of(0, 60), ttls(settings, none, own));
    settings.put(PREFIX + "datapoint_ttl", 1_000);
    assertEquals(List.of(1_000, 60), ttls(settings, none, own));
    settings.put(PREFIX + "align_datapoint_ttl_with_timestamp", true);
    assertEquals(List.of(990, 50), ttls(settings, none, own));
    assertEquals(List.of(), ttls(settings, point(NOW - 60_000, 60)));
    settings.put(PREFIX + "force_default_datapoint_ttl", true);
    assertEquals(List.of(990, 990), ttls(settings, none, own));
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
  void theIndexIsWrittenWhenAllOfItIs() throws Exception {
    CqlStore store = store(Map.of());
    DataPointsRowKey key =
        new DataPointsRowKey("metric", "any", 5_000, "kairos_long", series().tags());
    CompletableFuture<?> written =
        store
            .writeIndex(List.of(new IndexEntry(key, 77, true), new IndexEntry(key, 77, false)))
            .toCompletableFuture();
    assertEquals(3, sent.get(0).size());
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
  void onlySizeIsToldFromOtherFailures() throws IOException {
    CqlStore store = store(Map.of());
    Row row = store.rows(new Group(series(), List.of(point(NOW, 0)))).get(0);
    Map<Throwable, Class<?>> failures =
        Map.of(
            new InvalidQueryException("Batch too large"),
            TooLargeException.class,
            new InvalidQueryException("unconfigured table"),
            InvalidQueryException.class,
            new OverloadedException(null, "Batch too large"),
            OverloadedException.class);
    failures.forEach(
        (failure, expected) -> {
          answers.clear();
          CompletableFuture<?> written =
              store.writePoints(List.of(partition(store, row))).toCompletableFuture();
          answers.get(0).setException(failure);
          Throwable told = assertThrows(ExecutionException.class, written::get).getCause();
          assertInstanceOf(expected, told);
        });
  }
}
