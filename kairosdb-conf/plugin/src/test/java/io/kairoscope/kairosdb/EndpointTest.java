package io.kairoscope.kairosdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSetMultimap;
import com.google.common.collect.ImmutableSortedMap;
import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.Provides;
import com.google.inject.Singleton;
import com.google.inject.util.Modules;
import io.kairoscope.kairosdb.door.DoorStats;
import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.MetricSource;
import io.kairoscope.kairosdb.metrics.Parsed;
import io.kairoscope.kairosdb.queue.AnyCluster;
import io.kairoscope.kairosdb.queue.CoalescingQueueProcessor;
import io.kairoscope.kairosdb.queue.TestConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import javax.inject.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.core.queue.FileQueueProcessor;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.core.reporting.KairosMetricReporter;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.CassandraModule;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.events.DataPointEvent;

/** The whole endpoint in KairosDB's modules, with its own queue and with ours; only no server. */
@Timeout(120)
class EndpointTest {
  private static final Path DOC = Path.of("..", "..", "docs", "metrics.md");
  private static final String ROW = "| `";

  @TempDir Path folder;

  private static final class Fake extends AbstractModule {
    @Override
    protected void configure() {
      bind(DoorStats.class).in(Singleton.class);
      bind(Driver.class).in(Singleton.class);
    }

    @Provides
    @Singleton
    @Named("write_cluster")
    ClusterConnection cluster(CassandraConfiguration configuration) {
      return AnyCluster.of(configuration, true);
    }
  }

  /** What tells of itself only with a connection to a server. */
  static final class Driver implements KairosMetricReporter {
    @Override
    public List<DataPointSet> getMetrics(long now) {
      List<DataPointSet> sets = new ArrayList<>();
      for (KairosDbFamilies.Family family : KairosDbFamilies.ALL) {
        for (KairosDbFamilies.Source source : family.sources()) {
          if (!source.tags().isEmpty()) {
            String[] tags =
                source.tags().keySet().stream()
                    .flatMap(tag -> Stream.of(tag, "any"))
                    .toArray(String[]::new);
            for (String part : new String[] {"", ".count", ".sum"}) {
              sets.add(KairosDbMetricsTest.set(source.name() + part, 1, tags));
            }
          }
        }
      }
      return sets;
    }
  }

  private Injector start(Class<? extends QueueProcessor> queue) throws IOException {
    KairosRootConfig config =
        TestConfig.of(
            Map.of(
                QueueProcessor.QUEUE_PROCESSOR_CLASS,
                queue.getName(),
                CoreModule.QUEUE_PATH,
                folder.resolve(queue.getSimpleName()).toString()));
    Injector injector =
        Guice.createInjector(
            Modules.override(
                    new CoreModule(config), new CassandraModule(config), new StatusModule())
                .with(new Fake()));
    injector.getInstance(Driver.class);
    if (queue == CoalescingQueueProcessor.class) {
      injector.getInstance(DoorStats.class);
    }
    return injector;
  }

  private static Parsed read(Injector kairosDb) {
    return new Parsed(kairosDb.getInstance(MetricsResource.class).metrics());
  }

  private static DataPointEvent event(int i) {
    return new DataPointEvent(
        "metric", ImmutableSortedMap.of("a", "b"), new LongDataPoint(i, i), 0);
  }

  @Test
  void readingWritesNothingIntoKairosDbsOwnQueue() throws Exception {
    Injector kairosDb = start(FileQueueProcessor.class);
    QueueProcessor queue = kairosDb.getInstance(QueueProcessor.class);
    List<String> handedOut = Collections.synchronizedList(new ArrayList<>());
    Parsed before = read(kairosDb);
    assertEquals(0, before.value("kairosdb_queue_handed_out_points_total"));
    for (int i = 0; i < 10; i++) {
      queue.put(event(i));
      read(kairosDb);
    }
    assertEquals(10, read(kairosDb).value("kairosdb_queue_waiting_points"));
    queue.setProcessorHandler(
        (events, callback, full) -> {
          events.forEach(event -> handedOut.add(event.getMetricName()));
          callback.complete();
        });
    while (handedOut.size() < 10) {
      Thread.sleep(10);
    }
    for (int i = 0; i < 2; i++) {
      Parsed after = read(kairosDb);
      assertEquals(10, after.value("kairosdb_queue_handed_out_points_total"));
      assertEquals(10, after.value("kairosdb_queue_batch_points_sum"));
      assertEquals(0, after.value("kairosdb_queue_waiting_points"));
      assertEquals(0, after.value("kairosdb_metrics_failures_total"));
    }
    assertEquals(Collections.nCopies(10, "metric"), handedOut);
    assertEquals(
        "{\"since_checkpoint\":10,\"waiting\":0}",
        kairosDb.getInstance(StatusResource.class).queueDepth());
    queue.shutdown();
  }

  @Test
  void twoReadersOfOurQueueSeeTheSame() throws Exception {
    Injector kairosDb = start(CoalescingQueueProcessor.class);
    CoalescingQueueProcessor queue =
        (CoalescingQueueProcessor) kairosDb.getInstance(QueueProcessor.class);
    queue.setProcessorHandler(null);
    for (int i = 0; i < 10; i++) {
      queue.put(event(i));
    }
    assertTrue(queue.flush("metric", ImmutableSetMultimap.of(), 30_000));
    for (int i = 0; i < 2; i++) {
      Parsed all = read(kairosDb);
      assertEquals(10, all.value("kairosdb_queue_put_points_total"));
      assertEquals(10, all.value("kairosdb_queue_stored_points_total"));
      assertEquals(1, all.value("kairosdb_queue_stored_after_seconds_count"));
      assertEquals(10, all.value("kairosdb_write_partition_points_sum"));
      assertEquals(
          1, all.value("kairosdb_write_batch_rows_bucket{table=\"data_points\",le=\"10\"}"));
      assertEquals(
          0, all.value("kairosdb_write_batch_rows_bucket{table=\"data_points\",le=\"5\"}"));
      assertEquals(1, all.value("kairosdb_write_batch_rows_sum{table=\"string_index\"}"));
      assertEquals(0, all.value("kairosdb_metrics_failures_total"));
      assertEquals(15, all.value("kairosdb_queue_window_seconds"));
    }
    queue.shutdown();
  }

  /** One that breaks off in the middle of what it tells. */
  static final class Broken implements MetricSource {
    @Override
    public void tell(Exposition to) {
      to.gauge("kairosdb_half", "Half of it.").value(1);
      throw new IllegalStateException("the other half");
    }
  }

  @Test
  void aSourceThatFailsIsCountedAndDoesNotHideTheOthers() throws Exception {
    Injector kairosDb = start(CoalescingQueueProcessor.class);
    kairosDb.getInstance(Broken.class);
    Parsed all = read(kairosDb);
    assertEquals(1, all.value("kairosdb_metrics_failures_total"));
    assertEquals(1, all.value("kairosdb_half"));
    assertTrue(all.families().containsKey("jvm_threads_current"));
    assertTrue(all.families().containsKey("kairosdb_queue_waiting_points"));
    kairosDb.getInstance(QueueProcessor.class).shutdown();
  }

  /** A row for each family; those that depend on the queue say so. */
  private List<String> table() throws IOException {
    Map<String, Parsed.Family> stock = families(FileQueueProcessor.class);
    Map<String, Parsed.Family> ours = families(CoalescingQueueProcessor.class);
    Map<String, Parsed.Family> all = new TreeMap<>(stock);
    all.putAll(ours);
    List<String> rows = new ArrayList<>();
    all.forEach(
        (name, family) -> {
          String type = family.type();
          String queue = "";
          if (!ours.containsKey(name)) {
            queue = "stock";
          } else if (!stock.containsKey(name)) {
            queue = "coalescing";
          } else if (!stock.get(name).type().equals(type)) {
            type += "; with stock a " + stock.get(name).type();
          }
          String labels = String.join(", ", family.labels());
          rows.add(
              ROW + name + "` | " + type + " | " + labels + " | " + queue + " | "
                  + family.help() + " |");
        });
    return rows;
  }

  private Map<String, Parsed.Family> families(Class<? extends QueueProcessor> type)
      throws IOException {
    Injector kairosDb = start(type);
    Map<String, Parsed.Family> families = read(kairosDb).families();
    kairosDb.getInstance(QueueProcessor.class).shutdown();
    return families;
  }

  @Test
  void theDocumentationHasAllOfThem() throws Exception {
    List<String> rows = table();
    Path made = Files.write(Path.of("target", "metrics-table.md"), rows);
    List<String> written =
        Files.readAllLines(DOC).stream().filter(line -> line.startsWith(ROW)).toList();
    assertEquals(
        String.join("\n", rows),
        String.join("\n", written),
        "the rows that belong into docs/metrics.md are in " + made.toAbsolutePath());
  }
}
