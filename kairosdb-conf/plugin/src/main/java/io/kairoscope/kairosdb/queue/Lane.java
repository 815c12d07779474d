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
  // What it owed since when another node was asked for the same.
  long comparedMs = Long.MIN_VALUE;
  // When it answered last, if it ever did.
  long answeredMs;
  boolean answeredEver;
  // How long its answers take lately.
  private double answerTakesMs;
  private final int slots;
  // Of the slots, those that it is given now.
  private double open;
  private long shutMs = Long.MIN_VALUE;

  /**
   * @param slots batches under way to it at most
   */
  Lane(Node node, int slots) {
    this.node = node;
    this.slots = slots;
    open = slots;
  }

  /** Whether it may be sent one more. */
  boolean hasRoom() {
    return underWay.size() < (int) open;
  }

  /**
   * An attempt was not answered in time. It may well be carried out, later than anybody waits for
   * it; as much again on top would be later still, and in the end nothing would be in time. So half
   * as much at once from here on, and one more with each round that is: as TCP does (RFC 5681).
   *
   * @return whether it gets less now: what was sent before it got less says nothing new
   */
  boolean late(Attempt attempt, long nowMs) {
    if (attempt.sentMs < shutMs || open == 1) {
      return false;
    }
    open = Math.max(1, open / 2);
    shutMs = nowMs;
    return true;
  }

  /** An attempt was carried out in time. */
  void inTime() {
    open = Math.min(slots, open + 1 / open);
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
