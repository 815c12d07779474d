package io.kairoscope.kairosdb.queue;

import com.google.common.collect.SetMultimap;
import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.MetricSource;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SortedMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.ObjIntConsumer;
import javax.inject.Inject;
import javax.inject.Named;
import org.kairosdb.core.CoreModule;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.KairosDataPointFactory;
import org.kairosdb.core.KairosRootConfig;
import org.kairosdb.core.queue.EventCompletionCallBack;
import org.kairosdb.core.queue.ProcessorHandler;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.datastore.cassandra.CassandraConfiguration;
import org.kairosdb.datastore.cassandra.ClusterConnection;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;
import org.kairosdb.eventbus.FilterEventBus;
import org.kairosdb.eventbus.Publisher;
import org.kairosdb.events.DataPointEvent;
import org.kairosdb.events.RowKeyEvent;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The queue between KairosDB's protocols and the store that coalesces points by series. Named in
 * kairosdb.conf as {@code kairosdb.queue_processor.class}, in place of FileQueueProcessor, whose
 * durability and files it has.
 *
 * <p>It writes to the store itself, over KairosDB's own connection, statements and caches, instead
 * of handing events to KairosDB's datastore: that drops batches after time-outs and does not wait
 * for its index. So nothing of KairosDB has to be replaced, and its queries are as they were. It
 * works with the Cassandra datastore only.
 */
public class CoalescingQueueProcessor extends QueueProcessor
    implements PointQueue, MetricSource {
  private static final Logger logger = LoggerFactory.getLogger(CoalescingQueueProcessor.class);
  // Batches that can be cut from one release: enough to sort by host and shard.
  private static final int BATCHES_IN_RELEASE = 16;
  // A service manager waits longer than this before it kills, and what is not stored by then is
  // stored after the next start.
  private static final long DRAIN_MS = 10_000;
  private static final long END_MS = 5_000;
  private static final long POLL_MS = 100;
  // What others deleted is asked for once a second. Points that nobody deleted must not wait for
  // ever where it cannot be had.
  private static final long DELETES_KNOWN_MS = 30_000;

  private final QueueFile file;
  private final PointCodec codec;
  private final CoalescingQueue queue;
  private final Ttl ttl;
  private final NewSeries newSeries;
  private final Writer writer;
  private final Deliveries deliveries;
  private final Syncer syncer;
  private final ClusterConnection cluster;
  private final ExecutorService executor;
  private final QueueStats stats = new QueueStats();
  private final QueueMetrics metrics;
  private final QueueWatch watch;
  private final boolean hasOthers;
  private final CountDownLatch deletesKnown;
  private final ScheduledExecutorService timer =
      Executors.newSingleThreadScheduledExecutor(work -> daemon(work, "QueueProcessor-retry"));
  private volatile boolean closed;
  private volatile String watchTrouble;
  private volatile String strangerTrouble;

  @Inject
  public CoalescingQueueProcessor(
      KairosRootConfig config,
      KairosDataPointFactory factory,
      @Named(CoreModule.QUEUE_PATH) String path,
      @Named(CoreModule.PAGE_SIZE) int pageBytes,
      @Named(QUEUE_PROCESSOR) ExecutorService executor,
      @Named(BATCH_SIZE) int batchSize,
      @Named("write_cluster") ClusterConnection cluster,
      CassandraConfiguration configuration,
      DataCache<DataPointsRowKey> rowKeys,
      DataCache<TimedString> metricNames,
      FilterEventBus eventBus)
      throws IOException {
    super(nobody(), batchSize, 0, 0);
    this.executor = executor;
    this.cluster = cluster;
    QueueSettings settings = QueueSettings.of(config);
    newSeries =
        new NewSeries(settings.knownSeries(), settings.newSeriesPerS(), System::nanoTime);
    hasOthers = settings.others();
    deletesKnown = new CountDownLatch(hasOthers ? 1 : 0);
    boolean synced = settings.syncMs() > 0;
    file = new QueueFile(Path.of(path), pageBytes, settings.limits(), synced);
    syncer = synced ? new Syncer(file::force, file::head, settings.syncMs()) : null;
    DeadLetters deadLetters = new DeadLetters(Path.of(path).resolve("dead_letters.jsonl"));
    codec = new PointCodec(factory, stats.unreadable, letter -> keep(deadLetters, letter));
    queue =
        new CoalescingQueue(
            file,
            codec,
            settings.windowMs(),
            settings.waitingBytes(),
            settings.keepMs(),
            () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime()));
    Publisher<RowKeyEvent> newRows = eventBus.createPublisher(RowKeyEvent.class);
    ttl = CqlStore.ttl(configuration, settings.latestExpiryS());
    CqlStore store =
        new CqlStore(cluster, configuration, stats, ttl, System::currentTimeMillis);
    writer =
        new Writer(
            store,
            rowKeys,
            metricNames,
            row -> newRows.post(event(row)),
            new Batches(batchSize, settings.batchBytes()),
            deadLetters,
            timer,
            ThreadLocalRandom::current,
            queue,
            stats,
            Writer.Clocks.SYSTEM,
            new Writer.Limits(
                settings.inFlightPerHost(), settings.flyingBytes(), Writer.Limits.SILENT_MS));
    deliveries =
        new Deliveries(queue, writer, file::prepare, stats, BATCHES_IN_RELEASE * batchSize);
    watch =
        new QueueWatch(
            queue,
            file,
            stats,
            settings.windowMs(),
            writer::lastFailure,
            List.of(
                deliveries::trouble,
                deliveries::diskTrouble,
                writer::trouble,
                this::syncTrouble,
                () -> watchTrouble,
                () -> strangerTrouble));
    metrics =
        new QueueMetrics(
            queue, file, deadLetters, stats, settings, watch::health, writer::takenBytes);
  }

  private void keep(DeadLetters deadLetters, DeadLetters.Letter letter) throws IOException {
    try {
      deadLetters.add(List.of(letter));
    } catch (IOException error) {
      strangerTrouble =
          "points of types that are not registered cannot be written to the dead letters: " + error;
      throw error;
    }
    strangerTrouble = null;
    stats.deadLetters.increment();
  }

  private static RowKeyEvent event(Store.IndexEntry row) {
    return new RowKeyEvent(row.rowKey().getMetricName(), row.rowKey(), row.ttlS());
  }

  private static Thread daemon(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }

  /** For KairosDB's own delivery thread, which would take points in the order they came. */
  private static ExecutorService nobody() {
    ThreadPoolExecutor nobody =
        new ThreadPoolExecutor(
            0,
            1,
            0,
            TimeUnit.SECONDS,
            new SynchronousQueue<>(),
            new ThreadPoolExecutor.DiscardPolicy());
    nobody.shutdown();
    return nobody;
  }

  /** The datastore is ready for data: deliveries begin, with what the file has from before. */
  @Override
  public void setProcessorHandler(ProcessorHandler datastore) {
    executor.execute(this::deliver);
    if (syncer != null) {
      daemon(syncer, "QueueProcessor-sync").start();
    }
  }

  private void deliver() {
    try {
      // With start_async the connection may come later; this is the last that it sets.
      while (cluster.getRowSpec() == null) {
        Thread.sleep(POLL_MS);
      }
      if (!deletesKnown.await(DELETES_KNOWN_MS, TimeUnit.MILLISECONDS)) {
        logger.warn("Stored without knowing what other nodes deleted while this one was away");
      }
    } catch (InterruptedException stop) {
      return;
    }
    try {
      NodeWatch.of(cluster, queue::rewrite);
    } catch (Throwable error) {
      // Another KairosDB or driver than this is made for: points are stored all the same.
      logger.error("Storage nodes that go or come are not noticed", error);
      watchTrouble = "storage nodes that go or come are not noticed: " + error;
    }
    deliveries.run();
  }

  /** What comes over KairosDB's event bus. It passes on errors only, so this is one in any case. */
  @Override
  public void put(DataPointEvent event) {
    try {
      // Of rollups and of KairosDB itself: no client makes up their series, and none would send
      // again what is refused.
      put(event.getMetricName(), event.getTags(), event.getDataPoint(), event.getTtl(), false);
      syncSoon();
    } catch (RefusedPointException refused) {
      throw new NotTakenError(
          "A point of " + event.getMetricName() + " was refused: " + refused.getMessage(), refused);
    }
  }

  /** What does not come as a record. */
  void put(String metric, SortedMap<String, String> tags, DataPoint point, int ttlS)
      throws RefusedPointException {
    put(metric, tags, point, ttlS, true);
  }

  private void put(
      String metric, SortedMap<String, String> tags, DataPoint point, int ttlS, boolean bounded)
      throws RefusedPointException {
    RecordBuffer record;
    try {
      check(ttlS, point.getTimestamp());
      record = codec.record(metric, tags, point, ttlS);
      if (bounded) {
        known(record);
      }
    } catch (RefusedPointException error) {
      stats.refused.increment();
      throw error;
    }
    put(record);
  }

  @Override
  public void add(RecordBuffer records) throws RefusedPointException {
    try {
      check(records.ttlS(), records.time());
      records.end();
    } catch (RefusedPointException error) {
      stats.refused.increment();
      throw error;
    }
  }

  @Override
  public void admit(RecordBuffer records, ObjIntConsumer<String> refused) {
    int record = 0;
    while ((record = newSeries.unknown(records, record)) < records.count()) {
      if (newSeries.take(records.key(record))) {
        record++;
      } else {
        stats.refused.increment();
        refused.accept(newSeries.reason(), record);
        records.remove(record);
      }
    }
  }

  private void check(int ttlS, long timeMs) throws RefusedPointException {
    if (!ttl.isForEver(ttlS)) {
      String refusal = ttl.refusal(ttlS, timeMs, System.currentTimeMillis());
      if (refusal != null) {
        throw new RefusedPointException(refusal);
      }
    }
  }

  /** Of the last record. */
  private void known(RecordBuffer records) throws NewSeriesException {
    if (!newSeries.take(records.key(records.count() - 1))) {
      records.drop();
      throw new NewSeriesException(newSeries.reason());
    }
  }

  @Override
  public void put(RecordBuffer records) {
    try {
      if (closed) {
        throw new NotTakenError("KairosDB is shutting down", null);
      }
      queue.put(records, System.currentTimeMillis());
    } catch (NotTakenError error) {
      stats.refused.add(records.count() - records.taken());
      throw error;
    } catch (IOException | RuntimeException error) {
      stats.refused.add(records.count() - records.taken());
      throw new NotTakenError("The queue takes no points: " + error.getMessage(), error);
    } finally {
      stats.put.add(records.taken());
    }
  }

  @Override
  public void sync() throws InterruptedException {
    if (syncer != null) {
      syncer.sync();
    }
  }

  @Override
  public void syncSoon() {
    if (syncer != null) {
      syncer.want();
    }
  }

  @Override
  public boolean flush(String metric, SetMultimap<String, String> tags, long timeoutMs)
      throws InterruptedException {
    try {
      return queue.flush(metric, tags, timeoutMs, deliveries::wakeUp);
    } catch (IOException error) {
      logger.warn("What waits of {} cannot be released", metric, error);
      return false;
    }
  }

  @Override
  public void forget(
      String metric,
      long startMs,
      long endMs,
      SetMultimap<String, String> tags,
      long takenBeforeMs) {
    Deleted deleted = new Deleted(metric, startMs, endMs, new TagFilter(tags), takenBeforeMs);
    try {
      stats.forgotten.add(queue.forget(metric, deleted));
    } catch (IOException error) {
      // They come back as if they had come after the delete.
      logger.warn("What waits of {}, deleted on another node, could not be given up", metric, error);
    }
  }

  @Override
  public boolean hasOthers() {
    return hasOthers;
  }

  @Override
  public void deletesAreKnown() {
    deletesKnown.countDown();
  }

  @Override
  public void reindex(String metric, long sinceMs) {
    writer.reindex(metric, sinceMs);
  }

  @Override
  public Runnable deleting(String metric, long sinceMs) {
    return writer.deleting(metric, sinceMs);
  }

  private String syncTrouble() {
    return syncer == null ? null : syncer.trouble();
  }

  @Override
  public QueueHealth health() {
    return watch.health();
  }

  /** Takes nothing any more, stores what is in memory if that is soon done, and closes the file. */
  @Override
  public void shutdown() {
    closed = true;
    deliveries.drain();
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(DRAIN_MS);
    try {
      while (queue.depth().points() > 0 && System.nanoTime() < end) {
        Thread.sleep(POLL_MS);
      }
      deliveries.stop();
      executor.shutdownNow();
      boolean ended = executor.awaitTermination(END_MS, TimeUnit.MILLISECONDS);
      timer.shutdownNow();
      if (syncer != null) {
        syncer.stop();
      }
      logger.info("Stopped: {}", queue.depth());
      if (ended) {
        queue.end();
      } else {
        // It would lose the pages that it reads, and this process would end by a signal.
        logger.warn("The deliveries hang: what is stored is written again after the next start");
      }
      file.close();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    } catch (IOException error) {
      logger.warn("The queue file could not be closed; it is read again at the next start", error);
    }
    super.shutdown();
  }

  @Override
  public long waiting() {
    return queue.depth().waiting();
  }

  @Override
  public long sinceCheckpoint() {
    return queue.depth().sinceCheckpoint();
  }

  @Override
  public void tell(Exposition to) {
    metrics.tell(to);
    newSeries.tell(to);
  }

  // The rest is for KairosDB's own delivery thread and its figures; it does not run.

  @Override
  public List<DataPointSet> getMetrics(long now) {
    return List.of();
  }

  @Override
  protected void addReportedMetrics(ArrayList<DataPointSet> sets, long now) {}

  @Override
  protected List<DataPointEvent> get(int batchSize) {
    return List.of();
  }

  @Override
  protected int getAvailableDataPointEvents() {
    return 0;
  }

  @Override
  protected EventCompletionCallBack getCompletionCallBack() {
    return () -> {};
  }
}
