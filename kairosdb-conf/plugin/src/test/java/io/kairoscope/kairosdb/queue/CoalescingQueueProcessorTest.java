package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.Statement;
import com.google.common.collect.ImmutableSortedMap;
import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.Provides;
import com.google.inject.Singleton;
import com.google.inject.util.Modules;
import io.kairoscope.kairosdb.MetricsResource;
import io.kairoscope.kairosdb.StatusModule;
import io.kairoscope.kairosdb.StatusResource;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.inject.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.datapoints.DoubleDataPoint;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.CassandraModule;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.eventbus.FilterEventBus;
import org.kairosdb.eventbus.Subscribe;
import org.kairosdb.events.DataPointEvent;

/** The queue processor in KairosDB's modules, with its threads and its file; only no server. */
@Timeout(120)
class CoalescingQueueProcessorTest {
  private static final int POINTS = 1_000;
  private static final int SERIES = 10;
  private static final long ROW_TIME = 900 * 1_814_400_000L;

  @TempDir Path folder;

  private static final class Fake extends AbstractModule {
    @Provides
    @Singleton
    FakeCluster cluster(CassandraConfiguration configuration) {
      FakeCluster cluster = new FakeCluster(configuration);
      cluster.answersAtOnce = true;
      return cluster;
    }

    @Provides
    @Singleton
    @Named("write_cluster")
    ClusterConnection writeCluster(FakeCluster cluster) {
      return cluster;
    }
  }

  private Injector start(long windowMs) throws IOException {
    Map<String, Object> settings = new HashMap<>();
    settings.put(QueueProcessor.QUEUE_PROCESSOR_CLASS, CoalescingQueueProcessor.class.getName());
    settings.put(CoreModule.QUEUE_PATH, folder.toString());
    settings.put("kairosdb.kairoscope.queue.window_ms", windowMs);
    KairosRootConfig config = TestConfig.of(settings);
    return Guice.createInjector(
        Modules.override(
                new CoreModule(config), new CassandraModule(config), new StatusModule())
            .with(new Fake()));
  }

  private static DataPointEvent event(int i) {
    return new DataPointEvent(
        "metric",
        ImmutableSortedMap.of("series", "s" + i % SERIES),
        new DoubleDataPoint(ROW_TIME + i, i),
        0);
  }

  /** Keys and columns of all points that were written. */
  private static Set<List<ByteBuffer>> written(FakeCluster cluster) {
    Set<List<ByteBuffer>> written = new HashSet<>();
    for (BatchStatement batch : List.copyOf(cluster.sent)) {
      for (Statement statement : batch.getStatements()) {
        BoundStatement bound = (BoundStatement) statement;
        if (bound.preparedStatement() == cluster.psDataPointsInsert) {
          written.add(List.of(bound.getBytesUnsafe(0), bound.getBytesUnsafe(1)));
        }
      }
    }
    return written;
  }

  private static void awaitStored(QueueProcessor queue) throws InterruptedException {
    while (((QueueDepth) queue).waiting() > 0) {
      Thread.sleep(10);
    }
  }

  @Test
  void whatIsPutIsStoredAndTold() throws Exception {
    Injector kairosDb = start(500);
    QueueProcessor queue = kairosDb.getInstance(QueueProcessor.class);
    queue.setProcessorHandler(null);
    for (int i = 0; i < POINTS; i++) {
      queue.put(event(i));
    }
    awaitStored(queue);
    assertEquals(POINTS, written(kairosDb.getInstance(FakeCluster.class)).size());
    String depth = kairosDb.getInstance(StatusResource.class).queueDepth();
    assertTrue(depth.contains("\"waiting\":0"), depth);
    String metrics = kairosDb.getInstance(MetricsResource.class).metrics();
    String stored = "(?s).*kairosdb_kairoscope_queue_stored\\{[^}]*} 1000\n.*";
    assertTrue(metrics.matches(stored), metrics);
    queue.shutdown();
    // The file keeps its last record.
    assertEquals(1, ((QueueDepth) start(0).getInstance(QueueProcessor.class)).waiting());
  }

  @Test
  void aBacklogIsStoredAfterAStartWithoutNewPoints() throws Exception {
    QueueProcessor killed = start(1_000_000).getInstance(QueueProcessor.class);
    for (int i = 0; i < POINTS; i++) {
      killed.put(event(i));
    }
    Injector kairosDb = start(1_000_000);
    QueueProcessor queue = kairosDb.getInstance(QueueProcessor.class);
    assertEquals(POINTS, ((QueueDepth) queue).waiting());
    queue.setProcessorHandler(null);
    awaitStored(queue);
    assertEquals(POINTS, written(kairosDb.getInstance(FakeCluster.class)).size());
    queue.shutdown();
  }

  @Test
  void anEndStoresWhatStillWaitsForItsWindow() throws Exception {
    Injector kairosDb = start(1_000_000);
    QueueProcessor queue = kairosDb.getInstance(QueueProcessor.class);
    queue.setProcessorHandler(null);
    for (int i = 0; i < POINTS; i++) {
      queue.put(event(i));
    }
    queue.shutdown();
    assertEquals(POINTS, written(kairosDb.getInstance(FakeCluster.class)).size());
  }

  @Test
  void theSenderIsToldOfAPointThatIsNotTaken() throws Exception {
    Injector kairosDb = start(0);
    QueueProcessor queue = kairosDb.getInstance(QueueProcessor.class);
    queue.setProcessorHandler(null);
    FilterEventBus bus = kairosDb.getInstance(FilterEventBus.class);
    bus.register(
        // As KairosDB's datastore does.
        new Object() {
          @Subscribe
          public void put(DataPointEvent event) throws Exception {
            queue.put(event);
          }
        });
    var publisher = bus.createPublisher(DataPointEvent.class);
    publisher.post(event(1));
    queue.shutdown();
    assertThrows(NotTakenError.class, () -> publisher.post(event(2)));
  }
}
