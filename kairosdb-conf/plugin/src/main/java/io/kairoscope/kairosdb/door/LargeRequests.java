package io.kairoscope.kairosdb.door;

import io.kairoscope.kairosdb.queue.NotTakenError;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Memory for requests in which one metric has very many points, of all requests together.
 *
 * <p>Points are taken as they come, but those of one metric wait for its end: its tags, its type
 * and its time to live may stand behind them. That is kilobytes, unless somebody sends a million
 * points of one metric; and many such at once must not add up to the end of the process.
 */
final class LargeRequests {
  private final long limit;
  private final AtomicLong left;

  LargeRequests(long bytes) {
    limit = bytes;
    left = new AtomicLong(bytes);
  }

  /**
   * Reserves memory.
   *
   * @throws NotTakenError if others have it now
   */
  void take(long bytes) {
    if (left.addAndGet(-bytes) < 0) {
      left.addAndGet(bytes);
      throw new NotTakenError("Too many large requests at once", null);
    }
  }

  void give(long bytes) {
    left.addAndGet(bytes);
  }

  /** What all requests together may have; more than this none can ever get. */
  long limit() {
    return limit;
  }

  long left() {
    return left.get();
  }
}
