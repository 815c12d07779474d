package io.kairoscope.kairosdb.queue;

import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Does work later. A scheduled task that throws ends in silence, with all that depended on it: here
 * it is logged and counted, and what must not be lost is done again.
 */
final class Timer {
  private static final Logger logger = LoggerFactory.getLogger(Timer.class);
  private static final long AGAIN_MS = 1_000;

  private final ScheduledExecutorService executor;
  private final QueueStats stats;

  Timer(ScheduledExecutorService executor, QueueStats stats) {
    this.executor = executor;
    this.stats = stats;
  }

  /** Does work after a time; and a second later once more, if it throws anything. */
  void after(long ms, Runnable work) {
    try {
      executor.schedule(() -> guarded(work), ms, TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException closed) {
      logger.debug("Not done before the end; what is not stored is in the queue file", closed);
    }
  }

  private void guarded(Runnable work) {
    try {
      work.run();
    } catch (Throwable error) {
      stats.errors.increment();
      logger.error("Done again, as it failed", error);
      after(AGAIN_MS, work);
    }
  }
}
