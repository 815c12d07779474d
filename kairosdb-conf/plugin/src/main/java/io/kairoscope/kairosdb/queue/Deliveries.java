package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The one thread that reads back, releases, writes, and moves the checkpoint. */
final class Deliveries implements Runnable {
  private static final Logger logger = LoggerFactory.getLogger(Deliveries.class);
  // What falls due in this time is released together: with little memory or without a window, too,
  // there is something to fill batches with.
  private static final long TICK_MS = 100;
  private static final long AFTER_ERROR_MS = 1_000;

  private final CoalescingQueue queue;
  private final Writer writer;
  private final QueueStats stats;
  private final int enough;
  private final long checkpointMs;
  private long checkpointAtMs;
  // Released, and not yet all under way to the store.
  private List<Group> released = List.of();
  private volatile boolean draining;
  private volatile boolean stopped;

  /**
   * @param enough points to release at a time: for several batches to each host
   * @param checkpointS seconds between checkpoints while points come
   */
  Deliveries(
      CoalescingQueue queue, Writer writer, QueueStats stats, int enough, int checkpointS) {
    this.queue = queue;
    this.writer = writer;
    this.stats = stats;
    this.enough = enough;
    checkpointMs = TimeUnit.SECONDS.toMillis(checkpointS);
  }

  @Override
  public void run() {
    while (!stopped) {
      try {
        step();
      } catch (InterruptedException stop) {
        return;
      } catch (IOException | RuntimeException error) {
        // Nothing is lost by it: what was released is tried again.
        logger.error("Points could not be delivered", error);
        pause(AFTER_ERROR_MS);
      }
    }
  }

  private void step() throws IOException, InterruptedException {
    if (!draining) {
      stats.readBack.add(queue.refill());
    }
    if (released.isEmpty()) {
      released = queue.take(enough);
    }
    int points = released.stream().mapToInt(group -> group.points().size()).sum();
    writer.write(released);
    released = List.of();
    checkpoint();
    if (points < enough) {
      Thread.sleep(TICK_MS);
    }
  }

  private void checkpoint() throws IOException {
    long nowMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
    // As often as configured, and when all is stored, so that a restart then finds next to nothing.
    if (nowMs - checkpointAtMs >= checkpointMs || queue.depth().waiting() == 0) {
      checkpointAtMs = nowMs;
      queue.checkpoint();
    }
  }

  /** Releases what is in memory without waiting for its window, and reads nothing back any more. */
  void drain() {
    draining = true;
    queue.drain();
  }

  void stop() {
    stopped = true;
  }

  private static void pause(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
    }
  }
}
