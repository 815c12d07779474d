package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.Statement;
import com.google.common.collect.ImmutableSetMultimap;
import com.google.common.collect.ImmutableSortedMap;
import com.google.common.collect.SetMultimap;
import com.google.common.util.concurrent.Uninterruptibles;
import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.Provides;
import com.google.inject.Singleton;
import com.google.inject.util.Modules;
import io.kairoscope.kairosdb.MetricsResource;
import io.kairoscope.kairosdb.StatusModule;
import io.kairoscope.kairosdb.StatusResource;
import io.kairoscope.kairosdb.metrics.Parsed;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.inject.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.datapoints.DoubleDataPoint;
import org.kairosdb.core.datapoints.StringDataPoint;
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
  private static final SetMultimap<String, String> ALL = ImmutableSetMultimap.of();
  private static final long ROW_TIME = 900 * 1_814_400_000L;

  @TempDir Path folder;
  @TempDir Path elsewhere;

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
    return start(folder, windowMs);
  }

  /** What a killed process leaves behind: a copy, while it has the file open. */
  private Path killed() throws IOException {
    Path copy = elsewhere.resolve("killed");
    new ProcessBuilder("cp", "-r", folder.toString(), copy.toString()).start().onExit().join();
    return copy;
  }

  private static Injector start(Path folder, long windowMs) throws IOException {
    return start(folder, Map.of("window_ms", windowMs));
  }

  private static Injector start(Path folder, Map<String, ?> of) throws IOException {
    Map<String, Object> settings = new HashMap<>();
    settings.put(QueueProcessor.QUEUE_PROCESSOR_CLASS, CoalescingQueueProcessor.class.getName());
    settings.put(CoreModule.QUEUE_PATH, folder.toString());
    of.forEach((name, value) -> settings.put("kairosdb.kairoscope.queue." + name, value));
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

  private static CoalescingQueueProcessor running(Injector kairosDb) {
    CoalescingQueueProcessor queue =
        (CoalescingQueueProcessor) kairosDb.getInstance(QueueProcessor.class);
    queue.setProcessorHandler(null);
    return queue;
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
    assertEquals(1_000, new Parsed(metrics).value("kairosdb_queue_stored_points_total"));
    queue.shutdown();
    // The file keeps its last record.
    assertEquals(1, ((QueueDepth) start(0).getInstance(QueueProcessor.class)).waiting());
  }

  @Test
  void newSeriesAreTakenUpToABoundAndKnownOnesAlways() throws Exception {
    Injector kairosDb = start(folder, Map.of("new_series_per_s", 1));
    CoalescingQueueProcessor queue =
        (CoalescingQueueProcessor) kairosDb.getInstance(QueueProcessor.class);
    int known = 50_000; // KairosDB's own size of the cache of row keys
    DoubleDataPoint point = new DoubleDataPoint(ROW_TIME, 1);
    for (int i = 0; i < known; i++) {
      queue.put("metric", ImmutableSortedMap.of("series", "s" + i), point, 0);
    }
    NewSeriesException refused =
        assertThrows(
            NewSeriesException.class,
            () -> {
              for (int i = known; i < 3 * known; i++) {
                queue.put("metric", ImmutableSortedMap.of("series", "s" + i), point, 0);
              }
            });
    assertEquals(
        "its series is new, and more than 50000 at once and 1 a second are not taken; send it"
            + " again later",
        refused.getMessage());
    for (int i = 0; i < known; i++) {
      queue.put("metric", ImmutableSortedMap.of("series", "s" + i), point, 0);
    }
    Parsed metrics = new Parsed(kairosDb.getInstance(MetricsResource.class).metrics());
    assertEquals(1, metrics.value("kairosdb_queue_new_series_refused_points_total"));
    assertTrue(metrics.value("kairosdb_queue_new_series_total") >= known);
    assertEquals(1, metrics.value("kairosdb_queue_refused_points_total"));
  }

  @Test
  void ofManyPointsThoseOfNewSeriesAreTakenOut() throws Exception {
    Injector kairosDb = start(folder, Map.of("new_series_per_s", 1));
    CoalescingQueueProcessor queue =
        (CoalescingQueueProcessor) kairosDb.getInstance(QueueProcessor.class);
    int known = 50_000;
    long beganNs = System.nanoTime();
    for (int i = 1; i < known; i++) {
      assertEquals(List.of(), admitted(queue, "s" + i));
    }
    // There is room for one of those that are new, and for one more with each second that this takes;
    // the others are taken out, wherever they stand, and what is known is not.
    List<String> asked =
        new ArrayList<>(List.of("s1", "new", "sensor.new", "s2", "new", "s" + (known - 1)));
    List<String> late = new ArrayList<>(List.of("2 sensor.new"));
    for (int i = 0; i < 300; i++) {
      late.add(asked.size() + " sensor.new." + i);
      asked.add("sensor.new." + i);
    }
    List<String> refused = admitted(queue, asked.toArray(new String[0]));
    long room = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - beganNs);
    assertTrue(refused.size() >= late.size() - room, refused.size() + " after " + room + " s");
    assertEquals(late.subList(late.size() - refused.size(), late.size()), refused);
    Parsed metrics = new Parsed(kairosDb.getInstance(MetricsResource.class).metrics());
    assertEquals(refused.size(), metrics.value("kairosdb_queue_new_series_refused_points_total"));
    assertEquals(
        known + late.size() - refused.size(), metrics.value("kairosdb_queue_new_series_total"));
    assertEquals(refused.size(), metrics.value("kairosdb_queue_refused_points_total"));
  }

  /** What is not, as its place and its metric; the others are put. */
  private static List<String> admitted(CoalescingQueueProcessor queue, String... metrics)
      throws Exception {
    RecordBuffer records = new RecordBuffer();
    SeriesBytes series = new SeriesBytes();
    for (int i = 0; i < metrics.length; i++) {
      series.set(metrics[i], ImmutableSortedMap.of("place", "p" + i / 7));
      records.source(i);
      records.begin(series, 0, ROW_TIME + i);
      records.type("kairos_double");
      records.writeLong(i);
      queue.add(records);
    }
    List<String> refused = new ArrayList<>();
    queue.admit(
        records,
        (why, record) -> refused.add(records.sourceOf(record) + " " + records.metricOf(record)));
    List<Integer> left = new ArrayList<>();
    for (int i = 0; i < records.count(); i++) {
      left.add(records.sourceOf(i));
      assertEquals(metrics[records.sourceOf(i)], records.metricOf(i));
    }
    assertEquals(metrics.length - refused.size(), left.size());
    queue.put(records);
    assertEquals(left.size(), records.taken());
    return refused;
  }

  @Test
  void aBacklogIsStoredAfterAStartWithoutNewPoints() throws Exception {
    QueueProcessor killed = start(1_000_000).getInstance(QueueProcessor.class);
    for (int i = 0; i < POINTS; i++) {
      killed.put(event(i));
    }
    Injector kairosDb = start(killed(), 1_000_000);
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

  /** What it reads must not be unmapped under it. */
  @Test
  void anEndLeavesADeliveryThatHangsItsPages() throws Exception {
    Injector kairosDb = start(folder, Map.of("window_ms", 0, "keep_s", 1_000));
    CoalescingQueueProcessor queue = running(kairosDb);
    for (int i = 0; i < POINTS; i++) {
      queue.put(event(i));
    }
    awaitStored(queue);
    CountDownLatch hangs = new CountDownLatch(1);
    CountDownLatch goesOn = new CountDownLatch(1);
    kairosDb.getInstance(FakeCluster.class).beforeEach =
        () -> {
          hangs.countDown();
          // As in a driver that takes no notice of an interrupt.
          Uninterruptibles.awaitUninterruptibly(goesOn);
        };
    queue.put(event(POINTS));
    hangs.await();
    queue.shutdown();
    goesOn.countDown();
    QueueDepth next = (QueueDepth) start(0).getInstance(QueueProcessor.class);
    assertEquals(POINTS + 1, next.waiting(), "what was kept was given up");
  }

  @Test
  void aQueryFindsWhatWaits() throws Exception {
    Injector kairosDb = start(1_000_000);
    CoalescingQueueProcessor queue = running(kairosDb);
    for (int i = 0; i < POINTS; i++) {
      queue.put(event(i));
      queue.put("other", ImmutableSortedMap.of("a", "1"), new DoubleDataPoint(i, i), 0);
    }
    assertTrue(queue.flush("metric", ALL, 30_000));
    assertEquals(POINTS, written(kairosDb.getInstance(FakeCluster.class)).size());
    assertEquals(POINTS, queue.waiting());
    queue.shutdown();
  }

  @Test
  void aQueryOfOneSeriesFindsWhatWaitsOfItAndLeavesTheOthersWaiting() throws Exception {
    Injector kairosDb = start(1_000_000);
    CoalescingQueueProcessor queue = running(kairosDb);
    for (int i = 0; i < POINTS; i++) {
      queue.put(event(i));
    }
    SetMultimap<String, String> two = ImmutableSetMultimap.of("series", "s3", "series", "s4");
    int each = POINTS / SERIES;
    assertTrue(queue.flush("metric", ImmutableSetMultimap.of("series", "none"), 30_000));
    assertTrue(queue.flush("metric", ImmutableSetMultimap.of("none", "s3"), 30_000));
    assertEquals(POINTS, queue.waiting());
    assertTrue(queue.flush("metric", two, 30_000));
    assertEquals(POINTS - 2 * each, queue.waiting());
    assertEquals(2 * each, written(kairosDb.getInstance(FakeCluster.class)).size());
    assertTrue(queue.flush("metric", two, 30_000));
    assertTrue(queue.flush("metric", ALL, 30_000));
    assertEquals(POINTS, written(kairosDb.getInstance(FakeCluster.class)).size());
    queue.shutdown();
  }

  @Test
  void anotherNodesDeleteCoversWhatWaits() throws Exception {
    Injector kairosDb = start(1_000_000);
    CoalescingQueueProcessor queue = running(kairosDb);
    for (int i = 0; i < POINTS; i++) {
      queue.put(event(i));
    }
    long now = System.currentTimeMillis();
    // Those of one series, up to a time; then those taken later, which are none.
    queue.forget(
        "metric",
        Long.MIN_VALUE,
        ROW_TIME + POINTS / 2 - 1,
        ImmutableSetMultimap.of("series", "s3"),
        now);
    queue.forget("metric", Long.MIN_VALUE, Long.MAX_VALUE, ImmutableSetMultimap.of(), now - 60_000);
    assertTrue(queue.flush("metric", ALL, 30_000));
    int gone = POINTS / SERIES / 2;
    assertEquals(POINTS - gone, written(kairosDb.getInstance(FakeCluster.class)).size());
    assertEquals(0, queue.waiting());
    queue.shutdown();
  }

  @Test
  void whatTheStoreWouldRefuseIsRefused() throws Exception {
    Injector kairosDb = start(folder, Map.of("latest_expiry_s", 2_147_483_646L));
    CoalescingQueueProcessor queue =
        (CoalescingQueueProcessor) kairosDb.getInstance(QueueProcessor.class);
    var tags = ImmutableSortedMap.of("a", "1");
    for (int ttl : new int[] {-1, 630_720_001, 700_000_000, 630_720_000, Integer.MAX_VALUE}) {
      assertThrows(
          RefusedPointException.class,
          () -> queue.put("m", tags, new DoubleDataPoint(1, 1), ttl),
          "ttl " + ttl);
    }
    assertThrows(
        NotTakenError.class,
        () ->
            queue.put(
                new DataPointEvent("m", tags, new DoubleDataPoint(1, 1), 700_000_000)));
    queue.put("m", tags, new DoubleDataPoint(1, 1), 86_400);
    assertEquals(1, queue.waiting());
  }

  @Test
  void acknowledgementsWaitForTheDisk() throws Exception {
    Injector kairosDb = start(folder, Map.of("sync_ms", 5));
    CoalescingQueueProcessor queue =
        (CoalescingQueueProcessor) kairosDb.getInstance(QueueProcessor.class);
    queue.put(event(0));
    FutureTask<Void> acknowledged =
        new FutureTask<>(
            () -> {
              queue.sync();
              return null;
            });
    new Thread(acknowledged).start();
    // Nobody brings it there yet.
    assertThrows(TimeoutException.class, () -> acknowledged.get(300, TimeUnit.MILLISECONDS));
    queue.setProcessorHandler(null);
    acknowledged.get(10, TimeUnit.SECONDS);
    for (int i = 1; i < 5; i++) {
      queue.put(event(i));
      queue.sync();
    }
    assertEquals(List.of(), queue.health().troubles());
    queue.shutdown();
  }

  /** As the kernel has it: it would write these by itself only after half a minute. */
  @Test
  void whatNobodyAcknowledgesIsOnTheDiskSoonToo(@TempDir(factory = OnDisk.class) Path onDisk)
      throws Exception {
    OnDisk.assumed(onDisk);
    CoalescingQueueProcessor queue =
        running(start(onDisk, Map.of("sync_ms", 5, "window_ms", 60_000)));
    for (int i = 0; i < POINTS; i++) {
      queue.put(event(i));
    }
    long since = System.nanoTime();
    while (QueueFileTest.unwritten(onDisk) > 0
        && System.nanoTime() - since < TimeUnit.SECONDS.toNanos(3)) {
      Thread.sleep(100);
    }
    assertEquals(0, QueueFileTest.unwritten(onDisk));
    queue.shutdown();
  }

  @Test
  void whatOthersDeletedWhileItWasAwayDoesNotComeBack() throws Exception {
    QueueProcessor killed = start(1_000_000).getInstance(QueueProcessor.class);
    for (int i = 0; i < POINTS; i++) {
      killed.put(event(i));
    }
    Injector kairosDb = start(killed(), Map.of("window_ms", 0, "nodes", 2));
    CoalescingQueueProcessor queue = running(kairosDb);
    Thread.sleep(500);
    FakeCluster cluster = kairosDb.getInstance(FakeCluster.class);
    assertEquals(0, written(cluster).size());
    SetMultimap<String, String> one = ImmutableSetMultimap.of("series", "s3");
    queue.forget("metric", 0, Long.MAX_VALUE, one, Long.MAX_VALUE);
    queue.deletesAreKnown();
    awaitStored(queue);
    assertEquals(POINTS - POINTS / SERIES, written(cluster).size());
    queue.shutdown();
  }

  /** Half a minute: nobody can ask for less, as the store has to have been asked often enough. */
  @Test
  void whereNobodyTellsWhatOthersDeletedItGoesOnWithout() throws Exception {
    CoalescingQueueProcessor queue = running(start(folder, Map.of("window_ms", 0, "nodes", 2)));
    queue.put(event(0));
    long since = System.nanoTime();
    while (queue.waiting() > 0 && System.nanoTime() - since < TimeUnit.SECONDS.toNanos(60)) {
      Thread.sleep(100);
    }
    assertEquals(0, queue.waiting());
    assertTrue(System.nanoTime() - since > TimeUnit.SECONDS.toNanos(20));
    queue.shutdown();
  }

  @Test
  void ofManyPointsEachThatIsNotTakenIsCounted() throws Exception {
    Injector kairosDb = start(0);
    CoalescingQueueProcessor queue = running(kairosDb);
    queue.shutdown();
    RecordBuffer records = new RecordBuffer();
    SeriesBytes series = new SeriesBytes();
    series.set("metric", ImmutableSortedMap.of("a", "1"));
    for (int i = 0; i < 300; i++) {
      records.begin(series, 0, ROW_TIME + i);
      records.type("kairos_double");
      records.writeLong(i);
      queue.add(records);
    }
    assertThrows(NotTakenError.class, () -> queue.put(records));
    Parsed metrics = new Parsed(kairosDb.getInstance(MetricsResource.class).metrics());
    assertEquals(300, metrics.value("kairosdb_queue_refused_points_total"));
  }

  @Test
  void aFullQueueSaysSoAndGoesOnWhenThereIsRoom() throws Exception {
    Injector kairosDb = start(folder, Map.of("disk_mb", 163));
    CoalescingQueueProcessor queue =
        (CoalescingQueueProcessor) kairosDb.getInstance(QueueProcessor.class);
    FakeCluster cluster = kairosDb.getInstance(FakeCluster.class);
    int taken = 0;
    String value = "x".repeat(60_000);
    NotTakenError full = null;
    while (full == null) {
      try {
        queue.put(
            "metric",
            ImmutableSortedMap.of("series", "s"),
            new StringDataPoint(ROW_TIME + taken, value),
            0);
        taken++;
      } catch (NotTakenError error) {
        full = error;
      }
    }
    assertTrue(full.getMessage().contains("bound"), full.toString());
    assertTrue(taken > 500, "took " + taken);
    assertEquals(taken, queue.waiting());
    queue.setProcessorHandler(null);
    while (queue.health().healthy()) {
      Thread.sleep(10);
    }
    assertTrue(queue.health().troubles().get(0).contains("bound"), queue.health().toString());
    queue.flush("metric", ALL, 60_000);
    assertEquals(taken, written(cluster).size());
    // What is stored is no longer kept when there is no room otherwise.
    while (!queue.health().healthy()) {
      Thread.sleep(10);
    }
    queue.put(event(1));
    queue.shutdown();
  }

  /** Of another KairosDB or driver than the plugin is made for. */
  @Test
  void whatCannotBeWatchedIsStoredAllTheSame() throws Exception {
    Injector kairosDb = start(500);
    Object strange =
        Proxy.newProxyInstance(
            getClass().getClassLoader(),
            new Class<?>[] {Session.class},
            (self, method, args) -> {
              throw new NoSuchMethodError(method.getName());
            });
    Field session = ClusterConnection.class.getDeclaredField("m_session");
    session.setAccessible(true);
    session.set(kairosDb.getInstance(FakeCluster.class), strange);
    CoalescingQueueProcessor queue = running(kairosDb);
    queue.put(event(1));
    awaitStored(queue);
    String said = queue.health().troubles().toString();
    assertTrue(said.contains("not noticed"), said);
    queue.shutdown();
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
