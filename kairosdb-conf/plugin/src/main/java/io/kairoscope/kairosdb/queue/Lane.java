package io.kairoscope.kairosdb.queue;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.Set;

/** Batches for a node: those that wait, and so many under way. All under the lock of the lanes. */
final class Lane {
  // Answers over which a mean is taken, later ones counting more.
  private static final double LATELY = 8;

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
  // How long its answers take lately.
  private double answerTakesMs;

  Lane(Node node) {
    this.node = node;
  }

  /**
   * It has answered an attempt.
   *
   * @param mostMs that this counts for: one that stood still for a minute is not slow for hours
   */
  void answered(Attempt attempt, long nowMs, double mostMs) {
    double tookMs = Math.min(nowMs - attempt.sentMs, mostMs);
    answerTakesMs = answeredEver ? answerTakesMs + (tookMs - answerTakesMs) / LATELY : tookMs;
    answeredMs = nowMs;
    owesSinceMs = nowMs;
    answeredEver = true;
  }

  double answerTakesMs() {
    return answerTakesMs;
  }

  /** One batch on its way to a node. */
  static final class Attempt {
    final Batch batch;
    final Lane lane;
    final long sentMs;

    Attempt(Batch batch, Lane lane, long sentMs) {
      this.batch = batch;
      this.lane = lane;
      this.sentMs = sentMs;
    }
  }
}
