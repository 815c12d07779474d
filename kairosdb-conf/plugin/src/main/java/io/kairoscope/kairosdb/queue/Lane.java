package io.kairoscope.kairosdb.queue;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.Set;

/** Batches for a node: those that wait, and so many under way. All under the lock of the lanes. */
final class Lane {
  final Node node;
  final Deque<Batch> waiting = new ArrayDeque<>();
  // Only those that hold a slot.
  final Set<Attempt> underWay = new HashSet<>();
  boolean silent;
  long probedMs;
  // Since when it owes an answer, while something is under way.
  long owesSinceMs;
  // When it answered last, if it ever did.
  long answeredMs;
  boolean answeredEver;

  Lane(Node node) {
    this.node = node;
  }

  /** One batch on its way to a node. */
  static final class Attempt {
    final Batch batch;
    final Lane lane;

    Attempt(Batch batch, Lane lane) {
      this.batch = batch;
      this.lane = lane;
    }
  }
}
