package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.IndexBatch.Item;
import io.kairoscope.kairosdb.queue.Store.IndexEntry;
import io.kairoscope.kairosdb.queue.Store.Row;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sees to it that queries find the rows that are written, for as long as any point is in them, and
 * says when they do.
 *
 * <p>It shares KairosDB's caches of row keys and metric names: what is in them was written or is
 * being written. An entry is made before the write and not after, so that a delete that empties the
 * caches meanwhile has the row written again. What is being written is known here, so that all
 * points of the row wait for it, and not only those that were the first.
 */
final class RowIndex {
  private static final Logger logger = LoggerFactory.getLogger(RowIndex.class);
  // Rows of an index batch: at some 200 bytes a row, as large as a batch of points.
  private static final int BATCH_ROWS = 100;
  // How long a place is kept: after a change of the ring, writes make a detour for so long.
  private static final int PLACE_S = 60;
  // An index that cannot outlive its points, as nothing lives longer, is written once a day.
  private static final long DAY_S = 86_400;
  private static final CompletableFuture<Void> DONE = CompletableFuture.completedFuture(null);

  private final Store store;
  private final Lanes lanes;
  private final DataCache<DataPointsRowKey> rowKeys;
  private final DataCache<TimedString> metrics;
  private final Consumer<IndexEntry> announce;
  private final QueueStats stats;
  private final LongSupplier nowMs;
  private final Map<RowKey, CompletableFuture<Void>> rowsBeingWritten = new ConcurrentHashMap<>();
  private final Map<MetricRow, CompletableFuture<Void>> metricsBeingWritten =
      new ConcurrentHashMap<>();
  // Few, as each is a delete that runs.
  private final List<Deleting> deletes = new ArrayList<>();
  private long lastAtMs;

  /** Rows that may be gone from the cache when a delete is over, and had points while it ran. */
  private static final class Deleting {
    final String metric;
    final Set<RowKey> rows = new LinkedHashSet<>();

    Deleting(String metric) {
      this.metric = metric;
    }

    void touched(RowKey key) {
      if (metric.equals(key.getMetricName())) {
        rows.add(key);
      }
    }
  }

  /**
   * When points were taken for which the index is asked, s since 1970.
   *
   * @param again whether the store had them, and may have forgotten them: then it may have forgotten
   *     the index that was written for them as well
   */
  private record Taken(int firstS, int lastS, boolean again) {
    static Taken of(List<Point> points) {
      long first = Long.MAX_VALUE;
      long last = Long.MIN_VALUE;
      for (int i = 0; i < points.size(); i++) {
        first = Math.min(first, points.get(i).takenAt());
        last = Math.max(last, points.get(i).takenAt());
      }
      Release release = points.get(0).release();
      return new Taken(
          (int) (first / 1_000), (int) (last / 1_000), release != null && release.isAgain());
    }

    boolean forgotten(int indexedForS) {
      return again && indexedForS >= firstS;
    }
  }

  /**
   * @param announce is told of each row that is new
   */
  RowIndex(
      Store store,
      Lanes lanes,
      DataCache<DataPointsRowKey> rowKeys,
      DataCache<TimedString> metrics,
      Consumer<IndexEntry> announce,
      QueueStats stats,
      LongSupplier nowMs) {
    this.store = store;
    this.lanes = lanes;
    this.rowKeys = rowKeys;
    this.metrics = metrics;
    this.announce = announce;
    this.stats = stats;
    this.nowMs = nowMs;
  }

  /**
   * The partitions of a group, each of which knows when queries find it.
   *
   * @param begun gets what has to be written for that; it must be given to {@link #write} even if
   *     this throws, since others may wait for it by then
   */
  synchronized List<Partition> index(Group group, List<Item> begun) {
    List<Row> rows = store.rows(group);
    Taken taken = Taken.of(group.points());
    List<Partition> partitions = new ArrayList<>(rows.size());
    for (int i = 0; i < rows.size(); i++) {
      partitions.add(index(rows.get(i), taken, begun));
    }
    long now = nowMs.getAsLong();
    for (int i = 0; i < partitions.size(); i++) {
      Partition partition = partitions.get(i);
      partition.rowKey().touch(partition.points().size(), now);
      for (int one = 0; one < deletes.size(); one++) {
        deletes.get(one).touched(partition.rowKey());
      }
    }
    return partitions;
  }

  private Partition index(Row row, Taken taken, List<Item> begun) {
    // Asked before the cache: a row that is not there any more is either written or forgotten.
    CompletableFuture<Void> pending = rowsBeingWritten.get(row.key());
    RowKey cached = (RowKey) rowKeys.cacheItem(row.key());
    // The cached one has its key serialised already.
    RowKey rowKey = cached == null ? row.key() : cached;
    try {
      ByteBuffer key = store.key(rowKey);
      Place place = rowKey.place(store, key, nowMs.getAsLong(), PLACE_S);
      CompletableFuture<Void> indexed;
      if (cached == null) {
        // Others may have written it for longer, and the later write would end theirs.
        long until = Math.max(row.indexUntilS(), store.defaultUntilS(rowKey));
        int ttlS = until == row.indexUntilS() ? row.indexTtlS() : ttlS(until);
        indexed = begin(rowKey, place, ttlS, until, row.expiryS(), taken, begun, false);
        announce(rowKey, ttlS);
      } else if (outlives(row, cached.indexUntilS())) {
        stats.reindexed.increment();
        indexed =
            begin(
                rowKey,
                place,
                row.indexTtlS(),
                row.indexUntilS(),
                row.expiryS(),
                taken,
                begun,
                false);
      } else if (cached.isUnsure() || taken.forgotten(cached.indexedForS())) {
        stats.reindexed.increment();
        // As long as it is there already, which may be for later points than these.
        long until = cached.indexUntilS();
        boolean known = pending == null;
        indexed = begin(rowKey, place, ttlS(until), until, until, taken, begun, known);
        if (known && !taken.again) {
          indexed = DONE;
        }
      } else {
        indexed = pending == null ? DONE : pending;
      }
      return new Partition(rowKey, key, place, indexed, row.points());
    } catch (Throwable error) {
      if (cached == null) {
        rowKeys.removeKey(rowKey);
      }
      throw error;
    }
  }

  private static boolean outlives(Row row, long indexUntilS) {
    if (row.expiryS() <= indexUntilS) {
      return false;
    }
    long gained = row.indexUntilS() - indexUntilS;
    return gained >= (row.indexUntilS() > row.expiryS() ? 1 : DAY_S)
        || row.indexUntilS() == Long.MAX_VALUE;
  }

  /** Time to live of what is to end then. */
  private int ttlS(long untilS) {
    return untilS == Long.MAX_VALUE
        ? 0
        : (int) Math.max(1, untilS - nowMs.getAsLong() / 1_000);
  }

  /**
   * @param known whether it was written before, for as long: then only those wait that the store may
   *     have forgotten together with it, or a metric whose index is on nodes that are gone would have
   *     none of its points stored; what comes has it written again until it is
   */
  private CompletableFuture<Void> begin(
      RowKey key,
      Place place,
      int ttlS,
      long untilS,
      long expiryS,
      Taken taken,
      List<Item> begun,
      boolean known) {
    MetricRow metric = new MetricRow(key.getMetricName(), key.getTimestamp());
    // Before the cache has it: this may throw.
    long othersUntilS = store.defaultUntilS(key);
    CompletableFuture<Void> found = metricsBeingWritten.get(metric);
    MetricRow cached = (MetricRow) metrics.cacheItem(metric);
    boolean tooShort = cached != null && cached.indexUntilS() < Math.min(expiryS, untilS);
    if (cached == null
        || tooShort
        || cached.isUnsure()
        || taken.forgotten(cached.indexedForS())) {
      MetricRow kept = cached == null ? metric : cached;
      long longest = Math.max(untilS, cached == null ? othersUntilS : cached.indexUntilS());
      int itsTtlS = longest == untilS ? ttlS : ttlS(longest);
      found = beginMetric(kept, key, place, itsTtlS, longest, begun, known);
      kept.indexedForS(taken.lastS);
    }
    CompletableFuture<Void> written = new CompletableFuture<>();
    CompletableFuture<Void> indexed =
        found == null ? written : CompletableFuture.allOf(written, found);
    begun.add(new Item(new IndexEntry(key, ttlS, false), place, written));
    key.indexUntilS(untilS);
    key.indexedForS(taken.lastS);
    key.unsure(false);
    if (!known) {
      rowsBeingWritten.put(key, indexed);
    }
    indexed.whenComplete(
        (nothing, dead) -> {
          // In this order: what comes in between then has the dead one, too.
          if (isGone(dead, known) || key.isLarge()) {
            rowKeys.removeKey(key);
          } else if (dead != null) {
            key.unsure(true);
          }
          rowsBeingWritten.remove(key, indexed);
        });
    return indexed;
  }

  /** Whether a row must be written anew for its next point. */
  private static boolean isGone(Throwable dead, boolean known) {
    return dead != null && !(known && Refusal.cause(dead) instanceof GivenBackException);
  }

  private CompletableFuture<Void> beginMetric(
      MetricRow metric,
      RowKey key,
      Place place,
      int ttlS,
      long untilS,
      List<Item> begun,
      boolean known) {
    CompletableFuture<Void> written = new CompletableFuture<>();
    begun.add(new Item(new IndexEntry(key, ttlS, true), place, written));
    metric.indexUntilS(untilS);
    metric.unsure(false);
    if (!known) {
      metricsBeingWritten.put(metric, written);
    }
    written.whenComplete(
        (nothing, dead) -> {
          if (isGone(dead, known)) {
            metrics.removeKey(metric);
          } else if (dead != null) {
            metric.unsure(true);
          }
          metricsBeingWritten.remove(metric, written);
        });
    return written;
  }

  private void announce(RowKey key, int ttlS) {
    try {
      announce.accept(new IndexEntry(key, ttlS, false));
    } catch (Throwable error) {
      stats.errors.increment();
      logger.warn("Somebody who wants to know of new rows failed", error);
    }
  }

  /**
   * Writes what was begun.
   *
   * @param parked whether it was for points that were parked
   */
  void write(List<Item> begun, boolean parked) {
    write(begun, false, parked);
  }

  private void write(List<Item> begun, boolean owed, boolean parked) {
    if (begun.isEmpty()) {
      return;
    }
    long at;
    synchronized (this) {
      // Later than all before: a row that is written again must not end as it would have before.
      lastAtMs = Math.max(lastAtMs + 1, nowMs.getAsLong());
      at = lastAtMs;
    }
    for (int from = 0; from < begun.size(); from += BATCH_ROWS) {
      int to = Math.min(begun.size(), from + BATCH_ROWS);
      lanes.add(new IndexBatch(store, stats, begun.subList(from, to), at, owed, parked));
    }
  }

  /**
   * A delete of a metric begins on this node. It empties the cache after it has deleted the index:
   * what was stored in between, into a row of the cache, would not be known there any more.
   *
   * @return to be run when it is over: as {@link #reindex}, of such rows too
   */
  Runnable deleting(String metric, long sinceMs) {
    Deleting delete = new Deleting(metric);
    synchronized (this) {
      for (DataPointsRowKey one : rowKeys.getCachedKeys()) {
        if (one instanceof RowKey && ((RowKey) one).isAwaited()) {
          delete.touched((RowKey) one);
        }
      }
      deletes.add(delete);
    }
    return () -> reindex(delete, sinceMs);
  }

  /**
   * Writes the rows of a metric again that had points since then, or get some now. Its other rows
   * are forgotten, so that their next points write them. Both under one lock: a point in between
   * would find its row in the cache, and its index neither there nor written again.
   */
  void reindex(String metric, long sinceMs) {
    reindex(new Deleting(metric), sinceMs);
  }

  private void reindex(Deleting delete, long sinceMs) {
    List<Item> begun = new ArrayList<>();
    try {
      beginAgain(delete, sinceMs, begun);
    } finally {
      // Others may wait for it by now.
      write(begun, true, false);
    }
  }

  private synchronized void beginAgain(Deleting delete, long sinceMs, List<Item> begun) {
    deletes.remove(delete);
    Set<RowKey> touched = delete.rows;
    for (DataPointsRowKey one : rowKeys.getCachedKeys()) {
      if (one instanceof RowKey && delete.metric.equals(one.getMetricName())) {
        RowKey key = (RowKey) one;
        if (key.touchedSince(sinceMs)) {
          touched.add(key);
        } else if (!touched.contains(key)) {
          rowKeys.removeKey(key);
        }
      }
    }
    for (TimedString name : metrics.getCachedKeys()) {
      if (delete.metric.equals(name.getString())) {
        // As if it had never been written.
        metrics.removeKey(name);
      }
    }
    int nowS = (int) (nowMs.getAsLong() / 1_000);
    Taken now = new Taken(nowS, nowS, false);
    for (RowKey one : touched) {
      Place place = one.place(store, store.key(one), nowMs.getAsLong(), PLACE_S);
      RowKey cached = (RowKey) rowKeys.cacheItem(one);
      RowKey key = cached == null ? one : cached;
      long until = Math.max(one.indexUntilS(), key.indexUntilS());
      begin(key, place, ttlS(until), until, until, now, begun, false);
      stats.reindexed.increment();
    }
  }

  /** Why queries will never find a partition. */
  static String reason(Partition partition) {
    try {
      partition.indexed().getNow(null);
      return "its index";
    } catch (CompletionException error) {
      return "its index: " + Troubles.reason(Refusal.cause(error));
    }
  }
}
