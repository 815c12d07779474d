package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Store.Table;
import java.util.List;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes until it is written: there is nothing that a point was taken for but to be stored.
 *
 * <p>What fails waits, longer each time, and holds no slot meanwhile. Only what the store refuses
 * while it takes others is divided, down to what it is that it refuses; and that alone is given up,
 * as one point must not stop the others for ever. Where the store is not there for some rows, those
 * of others are parted from them, and they are given back to the queue to make room.
 */
final class Retrier implements Lanes.Outcome {
  private static final Logger logger = LoggerFactory.getLogger(Retrier.class);
  // The first ones, so that a cause is seen, and then one every few minutes.
  private static final int LOGGED = 3;
  private static final int LOGGED_EVERY = 30;
  // Of many batches one a second: a range may be without its quorum for hours.
  private static final long LOGGED_EVERY_MS = 1_000;
  // Attempts before an error that says little is taken for one of what is written.
  private static final int PATIENCE = 3;
  // Attempts before those are parted that are on other nodes; of a store that is late, which more
  // batches would make later still.
  private static final int PARTED = 2;
  private static final int LATE_PARTED = 4;
  // Refusals of something that cannot be divided, each with a canary that was written after it.
  private static final int REFUSALS = 2;
  private static final int UNSURE_REFUSALS = 4;
  // Minutes, as the canary of an index may be on other replicas, and all points of a row are lost.
  private static final int UNSURE_INDEX_REFUSALS = 20;
  // For dividing, a canary may be this old.
  private static final long CANARY_MS = 1_000;

  private final Lanes lanes;
  private final Store store;
  private final Canary canary;
  private final Troubles troubles;
  private final Timer timer;
  private final Backoff backoff;
  private final QueueStats stats;
  private final Patience patience;
  private final LongSupplier elapsedMs;
  private volatile Throwable lastFailure;
  private long loggedMs = -LOGGED_EVERY_MS;

  Retrier(
      Lanes lanes,
      Store store,
      Canary canary,
      Troubles troubles,
      Timer timer,
      Backoff backoff,
      QueueStats stats,
      Patience patience,
      LongSupplier elapsedMs) {
    this.lanes = lanes;
    this.store = store;
    this.canary = canary;
    this.troubles = troubles;
    this.timer = timer;
    this.backoff = backoff;
    this.stats = stats;
    this.patience = patience;
    this.elapsedMs = elapsedMs;
  }

  @Override
  public void written(Batch batch, Object result) {
    // Points whose time is over are settled, and say nothing of the store.
    if (batch.wasSent(result)) {
      if (troubles.any()) {
        troubles.written(batch.table());
      }
      patience.written();
    }
    batch.written(result);
  }

  @Override
  public void failed(Batch batch, Node node, Throwable error) {
    patience.failed(batch);
    lastFailure = error;
    batch.failures().increment();
    Refusal refusal = Refusal.of(error);
    if (refusal == Refusal.TROUBLE || refusal == Refusal.OURS) {
      troubles.refused(batch.table(), node, error);
    }
    switch (refusal) {
      case TOO_LARGE:
        if (divide(batch)) {
          stats.splits.increment();
        } else {
          judge(batch, node, refusal, error);
        }
        break;
      case CONTENT:
        judge(batch, node, refusal, error);
        break;
      case UNSURE:
      case OURS:
        if (batch.failed < PATIENCE) {
          again(batch, error);
        } else {
          judge(batch, node, refusal, error);
        }
        break;
      case TROUBLE:
        // Of a table as a whole, wherever its rows are: all wait until somebody has mended it.
        again(batch, error);
        break;
      default:
        notTaken(batch, error);
    }
  }

  /** By the store, whatever is in it; others may be. */
  private void notTaken(Batch batch, Throwable error) {
    if (!batch.isPart && batch.failed >= (Refusal.late(error) ? LATE_PARTED : PARTED)) {
      batch.isPart = true;
      if (divide(batch, parts(batch), batch.failed)) {
        return;
      }
    }
    if (!patience.isOver(batch)) {
      again(batch, error);
    } else if (batch.isOwed()) {
      batch.giveBack();
      again(batch, error);
    } else if (lanes.close(batch)) {
      if (isTimeToLog()) {
        logger.warn("Given back to the queue, which brings it again: {}", error.toString());
      }
      batch.giveBack();
    }
  }

  /** By a canary: is it the batch, or the store? */
  private void judge(Batch batch, Node node, Refusal refusal, Throwable error) {
    boolean one = batch.halves().isEmpty();
    long since = elapsedMs.getAsLong() - (one ? 0 : CANARY_MS);
    canary
        .alive(batch.table(), node, batch.place(), since)
        .whenComplete((alive, none) -> judged(batch, refusal, error, Boolean.TRUE.equals(alive)))
        .exceptionally(
            failure -> {
              stats.errors.increment();
              logger.error("A refused batch could not be judged; trying it again", failure);
              again(batch, error);
              return null;
            });
  }

  private void judged(Batch batch, Refusal refusal, Throwable error, boolean alive) {
    if (!alive) {
      notTaken(batch, error);
    } else if (!batch.halves().isEmpty()) {
      divide(batch);
    } else if (refusal == Refusal.OURS) {
      again(batch, error);
    } else if (++batch.refusals < enough(batch, refusal)) {
      again(batch, error);
    } else if (lanes.close(batch)) {
      String reason = Troubles.reason(error);
      logger.warn("Refused for good while the store takes others: {}", reason);
      batch.dead(reason);
    }
  }

  private static int enough(Batch batch, Refusal refusal) {
    if (refusal != Refusal.UNSURE) {
      return REFUSALS;
    }
    return batch.table() == Table.POINTS ? UNSURE_REFUSALS : UNSURE_INDEX_REFUSALS;
  }

  private boolean divide(Batch batch) {
    // Judged at its next failure, but it does not wait as long as the whole would have.
    return divide(batch, batch.halves(), Math.min(batch.failed, PATIENCE - 1));
  }

  private boolean divide(Batch batch, List<? extends Batch> parts, int failed) {
    if (parts.size() < 2) {
      return false;
    }
    if (lanes.close(batch)) {
      for (Batch part : parts) {
        part.failed = failed;
        part.failedMs = batch.failedMs;
        part.isPart = batch.isPart;
        lanes.add(part);
      }
    }
    return true;
  }

  private List<? extends Batch> parts(Batch batch) {
    try {
      return batch.parts();
    } catch (Throwable unknown) {
      stats.errors.increment();
      logger.debug("Where the rows of a batch are is not known", unknown);
      return List.of();
    }
  }

  private void again(Batch batch, Throwable error) {
    if ((batch.failed <= LOGGED || batch.failed % LOGGED_EVERY == 0) && isTimeToLog()) {
      logger.warn(
          "Not written after {} attempts, trying again: {}", batch.failed, error.toString());
    }
    timer.after(backoff.delayMs(batch.failed), () -> next(batch));
  }

  private synchronized boolean isTimeToLog() {
    long now = elapsedMs.getAsLong();
    if (now - loggedMs < LOGGED_EVERY_MS) {
      return false;
    }
    loggedMs = now;
    return true;
  }

  /** What the last attempt that failed met; null if none ever did. */
  Throwable lastFailure() {
    return lastFailure;
  }

  private void next(Batch batch) {
    if (lanes.closed(batch)) {
      return;
    }
    try {
      batch.replace(store);
    } catch (Throwable misplaced) {
      // Then where it was.
      stats.errors.increment();
      logger.debug("The place of a batch could not be worked out again", misplaced);
    }
    lanes.add(batch);
  }
}
