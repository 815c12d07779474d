package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.Row;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * Brings released series into the store, and reports points when they and the index entries that
 * queries need for them are written: then, and only then.
 *
 * <p>So many batches are under way to a host at a time; {@link #write} waits for one to be stored
 * when there are more. A batch that fails keeps its place until it is written.
 */
final class Writer {
  private final Store store;
  private final RowIndex index;
  private final Batches batches;
  private final Retrier retrier;
  private final Consumer<Collection<Point>> done;
  private final QueueStats stats;
  private final LongSupplier nowMs;
  private final int inFlightPerHost;
  private final Map<String, Semaphore> inFlight = new ConcurrentHashMap<>();

  /**
   * @param done is told of points that are stored, by any thread
   * @param nowMs ms since 1970, as the points have it
   */
  Writer(
      Store store,
      RowIndex index,
      Batches batches,
      Retrier retrier,
      Consumer<Collection<Point>> done,
      QueueStats stats,
      LongSupplier nowMs,
      int inFlightPerHost) {
    this.store = store;
    this.index = index;
    this.batches = batches;
    this.retrier = retrier;
    this.done = done;
    this.stats = stats;
    this.nowMs = nowMs;
    this.inFlightPerHost = inFlightPerHost;
  }

  /**
   * Writes series; returns when all their batches are under way. If it fails, none of them is, and
   * it may be called again with the same.
   */
  void write(List<Group> groups) throws InterruptedException {
    List<Row> rows = new ArrayList<>(groups.size());
    for (Group group : groups) {
      rows.addAll(store.rows(group));
    }
    List<List<Partition>> all = batches.cut(index.index(rows));
    for (List<Partition> batch : all) {
      send(batch);
    }
  }

  private void send(List<Partition> batch) throws InterruptedException {
    Semaphore slots =
        inFlight.computeIfAbsent(
            batch.get(0).place().host(), host -> new Semaphore(inFlightPerHost));
    slots.acquire();
    CompletableFuture<Void> written =
        retrier.write(batch, store::writePoints, Batches::halves, stats.retries);
    written.thenRun(slots::release);
    written.thenRun(() -> count(batch));
    for (Partition partition : batch) {
      CompletableFuture.allOf(written, partition.indexed()).thenRun(() -> stored(partition));
    }
  }

  private void count(List<Partition> batch) {
    int points = 0;
    int bytes = 0;
    for (Partition partition : batch) {
      points += partition.points().size();
      bytes += partition.bytes();
      stats.partitionPoints.addValue(partition.points().size());
    }
    stats.batchPoints.addValue(points);
    stats.batchBytes.addValue(bytes);
  }

  private void stored(Partition partition) {
    stats.storedAfterMs.addValue(nowMs.getAsLong() - partition.points().get(0).takenAt());
    stats.stored.add(partition.points().size());
    done.accept(partition.points());
  }
}
