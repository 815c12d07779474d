package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.IndexEntry;
import io.kairoscope.kairosdb.queue.Store.Table;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.LongAdder;

/** Entries of the index, which points wait for. */
final class IndexBatch extends Batch {
  private final Store store;
  private final QueueStats stats;
  private final List<Item> items;
  private final long atMs;
  private final boolean owed;
  private final boolean parked;

  /**
   * An entry and what waits for it.
   *
   * @param place of a row's points: any of their nodes will do for its index
   */
  record Item(IndexEntry entry, Place place, CompletableFuture<Void> written) {}

  /**
   * @param atMs the write time
   * @param owed whether it is for points, too, that the store has already
   * @param parked whether it is for points that were parked
   */
  IndexBatch(
      Store store, QueueStats stats, List<Item> items, long atMs, boolean owed, boolean parked) {
    super(items.get(0).place());
    this.store = store;
    this.stats = stats;
    this.items = items;
    this.atMs = atMs;
    this.owed = owed;
    this.parked = parked;
  }

  private IndexBatch of(List<Item> some) {
    return new IndexBatch(store, stats, some, atMs, owed, parked);
  }

  @Override
  Place newPlace(Store asked) {
    return asked.place(asked.key(items.get(0).entry().rowKey()));
  }

  @Override
  Table table() {
    for (Item item : items) {
      if (store.table(item.entry()) == Table.TAG_INDEX) {
        return Table.TAG_INDEX;
      }
    }
    return Table.INDEX;
  }

  @Override
  LongAdder failures() {
    return stats.indexFailures;
  }

  @Override
  CompletionStage<?> send(Node node) {
    List<IndexEntry> entries = new ArrayList<>(items.size());
    for (Item item : items) {
      entries.add(item.entry());
    }
    return store.writeIndex(node, entries, atMs);
  }

  @Override
  List<IndexBatch> halves() {
    int middle = items.size() / 2;
    return middle == 0
        ? List.of()
        : List.of(
            of(items.subList(0, middle)),
            of(items.subList(middle, items.size())));
  }

  /** The rows of one metric's name, and those of its series, are on the same nodes each. */
  @Override
  List<IndexBatch> parts() {
    Map<Object, List<Item>> byRow = new LinkedHashMap<>();
    for (Item item : items) {
      IndexEntry entry = item.entry();
      // By a tag they are somewhere else each.
      Object row =
          store.table(entry) == Table.TAG_INDEX
              ? entry
              : new Of(
                  entry.rowKey().getMetricName(),
                  entry.rowKey().getDataType(),
                  entry.rowKey().getTimestamp(),
                  entry.ofMetric());
      byRow.computeIfAbsent(row, none -> new ArrayList<>()).add(item);
    }
    return byRow.values().stream().map(this::of).toList();
  }

  private record Of(String metric, String type, long rowTime, boolean ofMetric) {}

  @Override
  void giveBack() {
    for (Item item : items) {
      item.written().completeExceptionally(new GivenBackException());
    }
  }

  @Override
  boolean isOwed() {
    return owed;
  }

  @Override
  boolean isParked() {
    return parked;
  }

  @Override
  void written(Object nothing) {
    for (Item item : items) {
      item.written().complete(null);
    }
  }

  @Override
  void dead(String reason) {
    for (Item item : items) {
      item.written().completeExceptionally(new DeadException(reason));
    }
  }
}
