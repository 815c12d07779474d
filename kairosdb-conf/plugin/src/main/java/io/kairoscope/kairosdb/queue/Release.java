package io.kairoscope.kairosdb.queue;

import java.util.concurrent.atomic.AtomicInteger;

/** Points that were released together, and how many of them are not yet settled. */
final class Release {
  private final AtomicInteger outstanding;

  Release(int points) {
    outstanding = new AtomicInteger(points);
  }

  void settled(int points) {
    outstanding.addAndGet(-points);
  }

  boolean done() {
    return outstanding.get() <= 0;
  }
}
