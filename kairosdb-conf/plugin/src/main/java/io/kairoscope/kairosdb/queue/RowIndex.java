package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.IndexEntry;
import io.kairoscope.kairosdb.queue.Store.Row;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.function.Consumer;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;

/**
 * Sees to it that queries find the rows that are written, and says when they do.
 *
 * <p>It shares KairosDB's caches of row keys and metric names: what is in them was written or is
 * being written. An entry is made before the write and not after, so that a delete that empties the
 * caches meanwhile has the row written again. What is being written is known here, so that all
 * points of the row wait for it, and not only those that were the first.
 */
final class RowIndex {
  // Rows of an index batch: at some 200 bytes a row, as large as a batch of points.
  private static final int BATCH_ROWS = 100;
  private static final CompletableFuture<Void> DONE = CompletableFuture.completedFuture(null);

  private final Store store;
  private final Retrier retrier;
  private final DataCache<DataPointsRowKey> rowKeys;
  private final DataCache<TimedString> metrics;
  private final Consumer<IndexEntry> announce;
  private final QueueStats stats;
  private final Semaphore inFlight;
  private final Map<DataPointsRowKey, CompletableFuture<Void>> rowsBeingWritten =
      new ConcurrentHashMap<>();
  private final Map<TimedString, CompletableFuture<Void>> metricsBeingWritten =
      new ConcurrentHashMap<>();

  /**
   * @param announce is told of each row that is new
   * @param inFlight batches at a time
   */
  RowIndex(
      Store store,
      Retrier retrier,
      DataCache<DataPointsRowKey> rowKeys,
      DataCache<TimedString> metrics,
      Consumer<IndexEntry> announce,
      QueueStats stats,
      int inFlight) {
    this.store = store;
    this.retrier = retrier;
    this.rowKeys = rowKeys;
    this.metrics = metrics;
    this.announce = announce;
    this.stats = stats;
    this.inFlight = new Semaphore(inFlight);
  }

  /** Begins to write what is new of these rows; each as a partition that knows when it is done. */
  List<Partition> index(List<Row> rows) throws InterruptedException {
    List<Partition> partitions = new ArrayList<>(rows.size());
    List<IndexEntry> entries = new ArrayList<>();
    List<CompletableFuture<Void>> futures = new ArrayList<>();
    try {
      for (Row row : rows) {
        partitions.add(index(row, entries, futures));
      }
    } finally {
      // Also if a row failed: for those before it, others wait by now.
      for (int from = 0; from < entries.size(); from += BATCH_ROWS) {
        int to = Math.min(entries.size(), from + BATCH_ROWS);
        write(entries.subList(from, to), futures.subList(from, to));
      }
    }
    return partitions;
  }

  private Partition index(
      Row row, List<IndexEntry> entries, List<CompletableFuture<Void>> futures) {
    DataPointsRowKey cached = rowKeys.cacheItem(row.key());
    // The cached one has its key serialised already.
    DataPointsRowKey rowKey = cached == null ? row.key() : cached;
    ByteBuffer key;
    Place place;
    try {
      key = store.key(rowKey);
      place = store.place(key);
    } catch (RuntimeException error) {
      if (cached == null) {
        rowKeys.removeKey(rowKey);
      }
      throw error;
    }
    CompletableFuture<Void> indexed =
        cached == null
            ? begin(row, entries, futures)
            : rowsBeingWritten.getOrDefault(rowKey, DONE);
    return new Partition(rowKey, key, place, indexed, row.points());
  }

  private CompletableFuture<Void> begin(
      Row row, List<IndexEntry> entries, List<CompletableFuture<Void>> futures) {
    DataPointsRowKey key = row.key();
    TimedString metric = new TimedString(key.getMetricName(), key.getTimestamp());
    boolean newMetric = metrics.cacheItem(metric) == null;
    IndexEntry entry = new IndexEntry(key, row.indexTtlS(), newMetric);
    CompletableFuture<Void> written = new CompletableFuture<>();
    CompletableFuture<Void> found = written;
    if (newMetric) {
      metricsBeingWritten.put(metric, written);
      written.thenRun(() -> metricsBeingWritten.remove(metric, written));
    } else {
      found = CompletableFuture.allOf(written, metricsBeingWritten.getOrDefault(metric, DONE));
    }
    CompletableFuture<Void> indexed = found;
    rowsBeingWritten.put(key, indexed);
    indexed.thenRun(() -> rowsBeingWritten.remove(key, indexed));
    entries.add(entry);
    futures.add(written);
    announce.accept(entry);
    return indexed;
  }

  private void write(List<IndexEntry> entries, List<CompletableFuture<Void>> futures)
      throws InterruptedException {
    inFlight.acquire();
    retrier
        .write(entries, store::writeIndex, RowIndex::halves, stats.indexFailures)
        .thenRun(
            () -> {
              inFlight.release();
              futures.forEach(future -> future.complete(null));
            });
  }

  private static List<List<IndexEntry>> halves(List<IndexEntry> entries) {
    int middle = entries.size() / 2;
    return middle == 0
        ? List.of()
        : List.of(entries.subList(0, middle), entries.subList(middle, entries.size()));
  }
}
