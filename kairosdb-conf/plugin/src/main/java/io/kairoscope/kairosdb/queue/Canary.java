package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.Table;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.LongSupplier;

/**
 * Tells a point that the store refuses from a store that refuses all: it writes what is known to be
 * good, to the same tables, through the same node and to the same replicas. What the store then
 * refuses of others is their own fault.
 *
 * <p>One at a time to each, however many ask.
 */
final class Canary {
  private final Store store;
  private final Troubles troubles;
  private final LongSupplier elapsedMs;
  private final Map<Where, Asked> asked = new HashMap<>();

  private record Where(Table table, Node node, List<Node> replicas) {}

  private record Asked(long startedMs, CompletableFuture<Boolean> alive) {}

  Canary(Store store, Troubles troubles, LongSupplier elapsedMs) {
    this.store = store;
    this.troubles = troubles;
    this.elapsedMs = elapsedMs;
  }

  /**
   * Whether the store takes a good row.
   *
   * @param sinceMs an answer that was asked for before that is too old
   */
  CompletableFuture<Boolean> alive(Table table, Node node, Place place, long sinceMs) {
    Where where = new Where(table, node, place.nodes());
    Asked mine;
    synchronized (this) {
      Asked last = asked.get(where);
      if (last != null && last.startedMs >= sinceMs) {
        return last.alive;
      }
      if (last != null && !last.alive.isDone()) {
        return last.alive.thenCompose(old -> alive(table, node, place, sinceMs));
      }
      mine = new Asked(elapsedMs.getAsLong(), new CompletableFuture<>());
      asked.put(where, mine);
    }
    try {
      CompletionStage<?> answer = store.canary(table, node, place);
      answer.whenComplete((nothing, error) -> heard(table, node, mine, error));
    } catch (Throwable error) {
      heard(table, node, mine, error);
    }
    return mine.alive;
  }

  private void heard(Table table, Node node, Asked mine, Throwable thrown) {
    Throwable error = thrown == null ? null : Refusal.cause(thrown);
    // Unavailable or timed out is no verdict, and trouble of a moment.
    if (error != null && Refusal.of(error) != Refusal.STORE) {
      troubles.refused(table, node, error);
    }
    mine.alive.complete(error == null);
  }
}
