package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.IndexEntry;
import io.kairoscope.kairosdb.queue.Store.Table;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.LongAdder;

/** Entries of the index, which points wait for. */
final class IndexBatch extends Batch {
  private final Store store;
  private final QueueStats stats;
  private final List<Item> items;
  private final long atMs;

  /**
   * An entry and what waits for it.
   *
   * @param place of a row's points: any of their nodes will do for its index
   */
  record Item(IndexEntry entry, Place place, CompletableFuture<Void> written) {}

  /**
   * @param atMs the write time
   */
  IndexBatch(Store store, QueueStats stats, List<Item> items, long atMs) {
    super(items.get(0).place());
    this.store = store;
    this.stats = stats;
    this.items = items;
    this.atMs = atMs;
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
            new IndexBatch(store, stats, items.subList(0, middle), atMs),
            new IndexBatch(store, stats, items.subList(middle, items.size()), atMs));
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
