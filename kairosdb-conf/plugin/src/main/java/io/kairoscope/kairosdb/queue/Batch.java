package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.Table;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.LongAdder;

/**
 * What is sent to the store at once, and what becomes of it. What is in it does not change; how it
 * fares is kept here by {@link Lanes} (under its lock) and {@link Retrier} (one step at a time).
 */
abstract class Batch {
  private Place place;

  /** Attempts that failed; some of those of the batch that this is a part of included. */
  int failed;

  /** When the first of these failed, ms of a clock that is never set. */
  long failedMs;

  /** Whether it is a part of one that was divided by where its rows are. */
  boolean isPart;

  /** Refusals of this very batch while the store took a canary on the same nodes. */
  int refusals;

  /** Attempts that are waited for: those in a lane, and those under way that nobody gave up. */
  int open;

  /** Written, divided, or given up: whatever is still heard of it does not matter. */
  boolean closed;

  Batch(Place place) {
    this.place = place;
  }

  final Place place() {
    return place;
  }

  /** Asks again where it belongs, for the next attempt. */
  final void replace(Store store) {
    place = newPlace(store);
  }

  abstract Place newPlace(Store store);

  /** The tables that it is written to. */
  abstract Table table();

  /** Attempts that failed are counted here. */
  abstract LongAdder failures();

  /** One attempt. The result is passed on to {@link #written}. */
  abstract CompletionStage<?> send(Node node);

  /** Two that are the same together; empty if it cannot be divided. */
  abstract List<? extends Batch> halves();

  /** Parts that are each on the same nodes, as far as that is known; itself alone if it is that. */
  abstract List<? extends Batch> parts();

  /** The store takes others, and not this: what waits for it goes back to the queue. */
  abstract void giveBack();

  /** Whether it must be tried again all the same, as nobody else would. */
  boolean isOwed() {
    return false;
  }

  /** Whether what waits for it was parked: a few attempts tell, and others are to be tried next. */
  boolean isParked() {
    return false;
  }

  /** Whether the store was sent anything by an attempt that did not fail. */
  boolean wasSent(Object result) {
    return true;
  }

  /** The store has it. */
  abstract void written(Object result);

  /** The store has refused it for good, and it cannot be divided. */
  abstract void dead(String reason);
}
