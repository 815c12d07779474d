package io.kairoscope.kairosdb.queue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Looks at all that can be wrong with the queue. */
final class QueueWatch {
  // Beyond the window a point is stored in seconds; a store that is away for a minute shows itself
  // in KairosDB's own check of it.
  private static final long OLDEST_MS = 60_000;

  private final CoalescingQueue queue;
  private final QueueFile file;
  private final QueueStats stats;
  private final long oldestMs;
  private final Supplier<String> lastFailure;
  private final List<Supplier<String>> troubles;
  private final Unmoved unmoved = new Unmoved();

  /**
   * How long the oldest point has been the same, by a clock that is never set back. A point that
   * was taken before the wall clock was set back seems to come from the future: by that clock it
   * would not grow older for as long.
   */
  static final class Unmoved {
    private Long oldest;
    private long sinceNs;

    /**
     * @param takenAt of the oldest point that is not settled; null for none. Later points have the
     *     same only within a few tens of ms
     */
    synchronized long ageMs(Long takenAt, long nowNs) {
      if (takenAt == null || !takenAt.equals(oldest)) {
        oldest = takenAt;
        sinceNs = nowNs;
      }
      return TimeUnit.NANOSECONDS.toMillis(nowNs - sinceNs);
    }
  }

  /**
   * @param lastFailure what the last write met that the store did not take
   * @param troubles each says what is wrong, or null
   */
  QueueWatch(
      CoalescingQueue queue,
      QueueFile file,
      QueueStats stats,
      long windowMs,
      Supplier<String> lastFailure,
      List<Supplier<String>> troubles) {
    this.queue = queue;
    this.file = file;
    this.stats = stats;
    oldestMs = 2 * windowMs + OLDEST_MS;
    this.lastFailure = lastFailure;
    this.troubles = troubles;
  }

  QueueHealth health() {
    List<String> found = new ArrayList<>();
    for (Supplier<String> each : troubles) {
      String trouble = each.get();
      if (trouble != null) {
        found.add(trouble);
      }
    }
    long ageMs = ageMs(found);
    if (ageMs > oldestMs) {
      long parked = queue.depth().parked();
      found.add(
          "a point has waited for "
              + ageMs / 1_000
              + " s: the store "
              + (parked == 0 ? "does not take it, or is behind" : parked(parked)));
    }
    long heldUpBy = queue.heldUpBy();
    if (heldUpBy > 0) {
      found.add(
          "nothing is stored that came later than "
              + heldUpBy
              + " points after one that the store does not take (queue_memory_mb)");
    }
    return new QueueHealth(
        found,
        ageMs,
        file.bytes(),
        stats.deadLetters.sum(),
        file.unreadable() + stats.unreadable.sum());
  }

  private String parked(long points) {
    return "takes others, but not "
        + points
        + " points, which wait in the queue's file until it does, as when two storage nodes of a"
        + " range are gone; the last failure: "
        + lastFailure.get();
  }

  private long ageMs(List<String> found) {
    try {
      Long takenAt = queue.oldestTakenAt();
      long unmovedMs = unmoved.ageMs(takenAt, System.nanoTime());
      return takenAt == null
          ? 0
          : Math.max(unmovedMs, System.currentTimeMillis() - takenAt);
    } catch (Throwable unreadable) {
      // An Error too: that is what a page is that the disk cannot read.
      found.add("the queue's file cannot be read: " + unreadable);
      return 0;
    }
  }
}
