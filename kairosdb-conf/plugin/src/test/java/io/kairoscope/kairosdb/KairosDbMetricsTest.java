package io.kairoscope.kairosdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.Parsed;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.datapoints.DoubleDataPointFactoryImpl;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.datastore.QueryQueuingManager;
import org.kairosdb.core.reporting.KairosMetricReporter;
import org.kairosdb.util.SimpleStats;
import org.kairosdb.util.SimpleStatsReporter;

/** KairosDB forgets what it has told; its readers must not notice. */
class KairosDbMetricsTest {
  private static final String COLLISIONS = "kairosdb.datastore.query_collisions";
  private static final String REQUESTS = "kairosdb_query_request_duration_seconds";
  private static final String COLLISIONS_TOTAL = "kairosdb_query_collisions_total";

  private final LongAdder failures = new LongAdder();

  static DataPointSet set(String name, long value, String... tags) {
    DataPointSet set = new DataPointSet(name);
    set.addTag("host", "node-1");
    for (int i = 0; i < tags.length; i += 2) {
      set.addTag(tags[i], tags[i + 1]);
    }
    set.addDataPoint(new LongDataPoint(1, value));
    return set;
  }

  private KairosDbMetrics metrics(KairosMetricReporter... reporters) {
    return new KairosDbMetrics(List.of(reporters), true, failures);
  }

  private static Parsed read(KairosDbMetrics metrics) {
    Exposition to = new Exposition();
    metrics.tell(to);
    return new Parsed(to.toString());
  }

  /** A reporter as KairosDB's are: what is told is gone. */
  private static KairosMetricReporter forgets(AtomicInteger count) {
    return now -> List.of(set(COLLISIONS, count.getAndSet(0)));
  }

  /** One that is in nobody's way, and fails if another asks before it is done. */
  private static KairosMetricReporter oneAtATime() {
    AtomicBoolean asked = new AtomicBoolean();
    return now -> {
      if (asked.getAndSet(true)) {
        throw new IllegalStateException("two ask at once");
      }
      LockSupport.parkNanos(1_000_000);
      asked.set(false);
      return List.of();
    };
  }

  @Test
  void everyReaderGetsWhatWasCountedSinceTheStart() {
    AtomicInteger count = new AtomicInteger(3);
    KairosDbMetrics metrics = metrics(forgets(count));
    assertEquals(3, read(metrics).value(COLLISIONS_TOTAL));
    assertEquals(3, read(metrics).value(COLLISIONS_TOTAL));
    count.addAndGet(4);
    assertEquals(7, read(metrics).value(COLLISIONS_TOTAL));
  }

  @Test
  void readersAtOnceLoseNothingAndCountNothingTwice() {
    int threads = 2;
    int each = 200_000;
    // A thread for each, or the machine's cores decide who comes at once.
    ExecutorService pool = Executors.newFixedThreadPool(threads + 2);
    AtomicInteger count = new AtomicInteger();
    SimpleStats stats = new SimpleStats();
    SimpleStatsReporter own =
        new SimpleStatsReporter(
            "node-1", new LongDataPointFactoryImpl(), new DoubleDataPointFactoryImpl());
    KairosDbMetrics metrics =
        metrics(
            forgets(count),
            oneAtATime(),
            now -> {
              List<DataPointSet> sets = new ArrayList<>();
              own.reportStats(stats.getAndClear(), now, "kairosdb.http.request_time", sets);
              return sets;
            });
    List<CompletableFuture<Void>> all = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      all.add(
          CompletableFuture.runAsync(
              () -> {
                double before = 0;
                for (int j = 0; j < 50; j++) {
                  double total = read(metrics).value(COLLISIONS_TOTAL);
                  assertTrue(total >= before, total + " after " + before);
                  before = total;
                }
              },
              pool));
    }
    for (int i = 0; i < threads; i++) {
      all.add(
          CompletableFuture.runAsync(
              () -> {
                for (int j = 0; j < each; j++) {
                  count.incrementAndGet();
                  stats.addValue(2);
                }
              },
              pool));
    }
    all.forEach(CompletableFuture::join);
    pool.shutdown();
    assertEquals(0, failures.sum());
    for (int i = 0; i < 2; i++) {
      Parsed end = read(metrics);
      assertEquals(threads * each, end.value(COLLISIONS_TOTAL));
      assertEquals(threads * each, end.value(REQUESTS + "_count"));
      assertEquals(threads * each * 2 / 1e3, end.value(REQUESTS + "_sum"), 1e-6);
    }
  }

  @Test
  void whatIsSinceTheStartAlreadyIsNotSummedUp() {
    KairosDbMetrics metrics =
        metrics(
            now ->
                List.of(
                    set("kairosdb.datastore.cassandra.client.bytes_sent", 5, "cluster", "write"),
                    set("kairosdb.datastore.cassandra.client.known_hosts", 3, "cluster", "write")));
    for (int i = 0; i < 2; i++) {
      Parsed all = read(metrics);
      assertEquals(5, all.value("kairosdb_store_sent_bytes_total{connection=\"write\"}"));
      assertEquals(3, all.value("kairosdb_store_known_nodes{connection=\"write\"}"));
    }
  }

  @Test
  void tagsAreLabelsAndTheRestIsLeftOut() {
    KairosDbMetrics metrics =
        metrics(
            now ->
                List.of(
                    set("kairosdb.metric_counters", 1, "metric_name", "SENSOR_1"),
                    set("kairosdb.http.request_time.max", 9),
                    set("kairosdb.datastore.query_collisions.count", 9),
                    set(
                        "kairosdb.datastore.cassandra.retry_count",
                        2,
                        "cluster",
                        "a\"b",
                        "retry_type",
                        "read_timeout"),
                    set("kairosdb.protocol.telnet_request_count", 5, "method", "put"),
                    set("kairosdb.protocol.telnet_request_count", 6, "method", "putm"),
                    set("kairosdb.protocol.telnet_request_count", 7, "method", "version")));
    Parsed all = read(metrics);
    assertEquals(
        2,
        all.value(
            "kairosdb_store_retries_total{connection=\"a\\\"b\",reason=\"read_timeout\"}"));
    assertEquals(11, all.value("kairosdb_ingest_points_total{protocol=\"telnet\",code=\"\"}"));
    assertEquals(0, all.value(COLLISIONS_TOTAL));
    assertFalse(all.families().toString().contains("SENSOR_1"));
    assertEquals(0, all.value("kairosdb_query_request_duration_seconds_sum"));
  }

  @Test
  void anIntThatWentRoundIsNoLoss() {
    AtomicInteger count = new AtomicInteger(Integer.MAX_VALUE);
    KairosDbMetrics metrics = metrics(forgets(count));
    count.addAndGet(3);
    assertEquals(Integer.MAX_VALUE + 3L, read(metrics).value(COLLISIONS_TOTAL));
  }

  @Test
  void oneThatCannotBeAskedDoesNotHideTheOthers() {
    KairosDbMetrics metrics =
        metrics(
            now -> {
              throw new NullPointerException("no connection yet");
            },
            forgets(new AtomicInteger(1)));
    assertEquals(1, read(metrics).value(COLLISIONS_TOTAL));
    assertEquals(1, failures.sum());
  }

  /** What another version of KairosDB has new should be looked at, and named. */
  @Test
  void allReportersOfKairosDbAreKnown() throws Exception {
    TreeSet<String> found = new TreeSet<>();
    String jar =
        QueryQueuingManager.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    try (JarFile classes = new JarFile(jar)) {
      classes.stream()
          .map(entry -> entry.getName())
          .filter(name -> name.startsWith("org/kairosdb/") && name.endsWith(".class"))
          .map(name -> name.substring(0, name.length() - 6).replace('/', '.'))
          .forEach(
              name -> {
                try {
                  Class<?> type = Class.forName(name, false, getClass().getClassLoader());
                  if (KairosMetricReporter.class.isAssignableFrom(type) && !type.isInterface()) {
                    found.add(type.getSimpleName());
                  }
                } catch (LinkageError | ClassNotFoundException missing) {
                  // of libraries that KairosDB does without
                }
              });
    }
    assertEquals(
        new TreeSet<>(
            List.of(
                // These are told.
                "CassandraClientImpl",
                "CassandraDatastore",
                "FilterPlugin",
                "IngestExecutorService",
                "KairosRetryPolicy",
                "MetricsResource",
                "PutCommand",
                "PutMillisecondCommand",
                "PutStringCommand",
                "QueryQueuingManager",
                "VersionCommand",
                // The queues: by StockQueue.
                "QueueProcessor",
                "FileQueueProcessor",
                "MemoryQueueProcessor",
                // A series for each metric; never bound; not for production.
                "DataPointsMonitor",
                "MonitorFilter",
                "BlastServer",
                "DemoServer")),
        found);
  }
}
