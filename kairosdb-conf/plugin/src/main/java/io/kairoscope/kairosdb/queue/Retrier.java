package io.kairoscope.kairosdb.queue;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes until it is written: there is nothing that a point was taken for but to be stored.
 *
 * <p>Whatever the store answers is taken for its state of the moment: overloaded, unavailable,
 * timed out, its tables missing. Only size is ours to mend. When the process ends, what is not
 * written is still in the file.
 */
final class Retrier {
  private static final Logger logger = LoggerFactory.getLogger(Retrier.class);
  // The first ones, so that a cause is seen, and then one every few minutes.
  private static final int LOGGED = 3;
  private static final int LOGGED_EVERY = 30;

  private final ScheduledExecutorService timer;
  private final Backoff backoff;
  private final QueueStats stats;

  Retrier(ScheduledExecutorService timer, Backoff backoff, QueueStats stats) {
    this.timer = timer;
    this.backoff = backoff;
    this.stats = stats;
  }

  /**
   * Writes items together, or in parts if they are too large together.
   *
   * @param attempt one attempt at some of the items
   * @param halves what to try in its place if that is too large; empty if it cannot be divided
   * @param failures counts attempts that failed
   * @return completes when all are written, and never with a failure
   */
  <T> CompletableFuture<Void> write(
      List<T> items,
      Function<List<T>, CompletionStage<?>> attempt,
      Function<List<T>, List<List<T>>> halves,
      LongAdder failures) {
    CompletableFuture<Void> written = new CompletableFuture<>();
    attempt(new Work<>(items, attempt, halves, failures, written), 0);
    return written;
  }

  private record Work<T>(
      List<T> items,
      Function<List<T>, CompletionStage<?>> attempt,
      Function<List<T>, List<List<T>>> halves,
      LongAdder failures,
      CompletableFuture<Void> written) {}

  private <T> void attempt(Work<T> work, int failed) {
    CompletionStage<?> answer;
    try {
      answer = work.attempt.apply(work.items);
    } catch (RuntimeException error) {
      answer = CompletableFuture.failedFuture(error);
    }
    answer.whenComplete(
        (nothing, error) -> {
          if (error == null) {
            work.written.complete(null);
          } else {
            failed(work, failed + 1, cause(error));
          }
        });
  }

  private <T> void failed(Work<T> work, int failed, Throwable error) {
    work.failures.increment();
    if (error instanceof TooLargeException) {
      List<List<T>> halves = work.halves.apply(work.items);
      if (!halves.isEmpty()) {
        stats.splits.increment();
        CompletableFuture.allOf(
                halves.stream()
                    .map(half -> write(half, work.attempt, work.halves, work.failures))
                    .toArray(CompletableFuture[]::new))
            .thenRun(() -> work.written.complete(null));
        return;
      }
    }
    if (failed <= LOGGED || failed % LOGGED_EVERY == 0) {
      logger.warn("Not written after {} attempts, trying again: {}", failed, error.toString());
    }
    try {
      timer.schedule(() -> attempt(work, failed), backoff.delayMs(failed), TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException closed) {
      logger.info("Not written before the end, left in the queue file: {}", work.items.size());
    }
  }

  private static Throwable cause(Throwable error) {
    return error instanceof CompletionException && error.getCause() != null
        ? error.getCause()
        : error;
  }
}
