package io.kairoscope.kairosdb.queue;

import java.util.concurrent.atomic.AtomicInteger;

/** Points that were released together, and how many of them are not yet settled. */
final class Release {
  private final AtomicInteger outstanding;
  private final boolean again;

  /**
   * @param again whether the store had them before, and they are written again in case a node of it
   *     forgot them: then they are neither new there nor late, and nothing is settled by it
   */
  Release(int points, boolean again) {
    outstanding = new AtomicInteger(points);
    this.again = again;
  }

  boolean isAgain() {
    return again;
  }

  void settled(int points) {
    outstanding.addAndGet(-points);
  }

  boolean done() {
    return outstanding.get() <= 0;
  }
}
