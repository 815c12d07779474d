package io.kairoscope.kairosdb.queue;

import java.util.function.LongSupplier;

/**
 * How long what the store does not take may keep its room: until it has failed some times while the
 * store took others. What it has room for is all that is under way, and would be nothing else in
 * the end.
 *
 * <p>While the store takes nothing at all it stays where it is: to read other points from the file
 * would be of no use. Only if it fills all the room that there is, nobody can tell whether others
 * would be taken: so others get their turn, and the next one after twice as long.
 *
 * <p>What was parked goes back whether others are written or not: others that are parked get their
 * turn, of which some may be taken while nothing else comes.
 */
final class Patience {
  private static final int ATTEMPTS = 4;
  private static final long FIRST_MS = 60_000;
  private static final long MOST_MS = 600_000;
  // All that is tried again is, within this time.
  private static final long TURN_MS = 10_000;
  private static final long NEVER = Long.MIN_VALUE;

  private final LongSupplier fullMs;
  private final LongSupplier elapsedMs;
  private volatile long writtenMs = NEVER;
  // Since when nothing was written and the room was full, as it was seen at a turn.
  private volatile long stuckSinceMs = NEVER;
  private long waitMs = FIRST_MS;
  private long turnMs = NEVER;

  /**
   * @param fullMs for how long the room has been full with nothing given back; 0 while it is not
   * @param elapsedMs a clock that is never set
   */
  Patience(LongSupplier fullMs, LongSupplier elapsedMs) {
    this.fullMs = fullMs;
    this.elapsedMs = elapsedMs;
  }

  /** The store took something. */
  void written() {
    writtenMs = elapsedMs.getAsLong();
    if (stuckSinceMs != NEVER) {
      stuckSinceMs = NEVER;
    }
  }

  /** An attempt failed. */
  void failed(Batch batch) {
    if (batch.failed++ == 0) {
      batch.failedMs = elapsedMs.getAsLong();
    }
  }

  /** Whether a batch that failed is to make room for others. */
  boolean isOver(Batch batch) {
    return batch.failed >= ATTEMPTS
        && (batch.isParked() || writtenMs > batch.failedMs || isTurn(batch));
  }

  /**
   * Others get their turn in place of what had failed before. In the first turn what comes makes room,
   * too, as there may be more of one range than there is room for. Later it is more likely that the
   * store is away as a whole, and all that came would be given back for nothing.
   */
  private synchronized boolean isTurn(Batch batch) {
    long now = elapsedMs.getAsLong();
    if (stuckSinceMs == NEVER) {
      waitMs = FIRST_MS;
      turnMs = NEVER;
    }
    if (turnMs != NEVER && now < turnMs + TURN_MS) {
      return isFirstTurn() || batch.failedMs < turnMs;
    }
    long full = fullMs.getAsLong();
    if (full < waitMs) {
      return false;
    }
    if (stuckSinceMs == NEVER) {
      stuckSinceMs = now - full;
    }
    turnMs = now;
    waitMs = Math.min(MOST_MS, 2 * waitMs);
    return isFirstTurn() || batch.failedMs < turnMs;
  }

  private boolean isFirstTurn() {
    return waitMs == 2 * FIRST_MS;
  }

  /** For how long nothing was written as what is not taken fills the room; 0 while that is not so. */
  long stuckMs() {
    long since = stuckSinceMs;
    return since == NEVER ? fullMs.getAsLong() : elapsedMs.getAsLong() - since;
  }
}
