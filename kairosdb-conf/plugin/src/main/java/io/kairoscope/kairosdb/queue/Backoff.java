package io.kairoscope.kairosdb.queue;

import java.util.function.Supplier;
import java.util.random.RandomGenerator;

/** How long to wait before the next attempt: longer each time, and not all at the same moment. */
final class Backoff {
  private static final long FIRST_MS = 100;
  // A store that is back is noticed within this time.
  private static final long MAX_MS = 10_000;

  private final Supplier<RandomGenerator> random;

  Backoff(Supplier<RandomGenerator> random) {
    this.random = random;
  }

  /** Milliseconds to wait after a number of attempts that failed, from 1. */
  long delayMs(int failed) {
    long most = FIRST_MS << Math.min(failed - 1, 30);
    most = Math.min(most, MAX_MS);
    return most / 2 + random.get().nextLong(most / 2 + 1);
  }
}
