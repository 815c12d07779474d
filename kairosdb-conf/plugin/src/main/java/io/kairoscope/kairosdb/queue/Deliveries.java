package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The one thread that reads back, releases, writes, and moves the checkpoint. */
final class Deliveries implements Runnable {
  private static final Logger logger = LoggerFactory.getLogger(Deliveries.class);
  // What falls due in this time is released together: with little memory or without a window, too,
  // there is something to fill batches with.
  static final long TICK_MS = 100;
  private static final long AFTER_ERROR_MS = 1_000;
  // A parked record that cannot be read, or given up for a full disk, must not stop all others.
  private static final long AFTER_PARKED_ERROR_MS = 10_000;
  // So that they do not take all the room before any of them has failed, and others get theirs.
  private static final long BESIDE_MS = 1_000;
  // What is written again is spread over a minute, beside what is new.
  private static final long TICKS_OF_REWRITING = 600;
  private static final int REWRITTEN_AT_LEAST = 200;
  private static final long SILENT_MS = 15_000;

  /** What the disk must have ready. */
  interface Disk {
    void prepare() throws IOException;
  }

  private final CoalescingQueue queue;
  private final Writer writer;
  private final Disk disk;
  private final QueueStats stats;
  private final int enough;
  // Released, and not yet taken over.
  private List<Group> released = List.of();
  private List<Group> parked = List.of();
  private long parkedDueMs = Long.MIN_VALUE;
  private long besideDueMs = Long.MIN_VALUE;
  private long rewrittenAtMs;
  private volatile Thread thread;
  private volatile long beatMs;
  private volatile String failure;
  private volatile String diskFailure;
  private volatile boolean draining;
  private volatile boolean stopped;

  /**
   * @param enough points to release at a time: for several batches to each host
   */
  Deliveries(CoalescingQueue queue, Writer writer, Disk disk, QueueStats stats, int enough) {
    this.queue = queue;
    this.writer = writer;
    this.disk = disk;
    this.stats = stats;
    this.enough = enough;
  }

  private static long nowMs() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }

  @Override
  public void run() {
    thread = Thread.currentThread();
    while (!stopped) {
      beatMs = nowMs();
      try {
        boolean more = step();
        failure = null;
        if (!more && !(queue.isUrgent() && writer.hasRoom())) {
          LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(TICK_MS));
        }
      } catch (Throwable error) {
        // Whatever it is: the points are in the file, and what was released is tried again. An
        // Error must not end the only thread that stores anything.
        failure = error.toString();
        stats.deliveryFailures.increment();
        logger.error("Points could not be delivered; trying again", error);
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(AFTER_ERROR_MS));
      }
      if (Thread.interrupted()) {
        return;
      }
    }
  }

  /** Whether there may be more to do at once. */
  boolean step() throws IOException {
    prepare();
    if (!draining) {
      stats.readBack.add(queue.refill());
    }
    // Beside arrears, which may last for hours: the oldest points are among these and hold the file.
    if (!draining && nowMs() >= besideDueMs && writer.hasRoom()) {
      besideDueMs = nowMs() + BESIDE_MS;
      deliverParked();
    }
    long untilMs = nowMs() + TICK_MS;
    boolean more = true;
    while (more && nowMs() < untilMs) {
      more = writer.hasRoom() && deliver();
    }
    if (!more && writer.hasRoom()) {
      rewrite();
      more = !draining && writer.hasRoomToSpare() && deliverParked();
    }
    queue.hold(writer.hasSilentNode());
    queue.checkpoint();
    return more;
  }

  private boolean deliver() throws IOException {
    if (released.isEmpty()) {
      released = queue.take(enough);
    }
    if (released.isEmpty()) {
      return false;
    }
    writer.write(released);
    released = List.of();
    return true;
  }

  private boolean deliverParked() throws IOException {
    if (nowMs() < parkedDueMs) {
      return false;
    }
    parkedDueMs = nowMs() + AFTER_PARKED_ERROR_MS;
    if (parked.isEmpty()) {
      parked = queue.takeParked(enough);
    }
    boolean any = !parked.isEmpty();
    writer.write(parked);
    // Only now: no others of them come before these are settled, or given back once more.
    parked = List.of();
    parkedDueMs = Long.MIN_VALUE;
    return any;
  }

  private void rewrite() throws IOException {
    if (nowMs() - rewrittenAtMs < TICK_MS) {
      return;
    }
    rewrittenAtMs = nowMs();
    long most = Math.max(REWRITTEN_AT_LEAST, queue.kept() / TICKS_OF_REWRITING);
    List<Group> again = queue.takeAgain((int) Math.min(most, enough));
    if (!again.isEmpty()) {
      again.forEach(group -> stats.rewritten.add(group.points().size()));
      writer.write(again);
    }
  }

  private void prepare() throws IOException {
    try {
      disk.prepare();
      diskFailure = null;
    } catch (IOException full) {
      // The stop interrupts, which ends the making of a page: that says nothing of the disk.
      if (stopped || Thread.currentThread().isInterrupted()) {
        throw full;
      }
      // What the store has need not be kept when that lets new points in.
      queue.giveUpKept();
      try {
        disk.prepare();
        diskFailure = null;
      } catch (IOException still) {
        if (diskFailure == null) {
          logger.error("The queue can soon take no points any more: {}", still.toString());
        }
        diskFailure = still.getMessage();
      }
    }
  }

  /** There is something that must not wait for its moment. */
  void wakeUp() {
    LockSupport.unpark(thread);
  }

  /** What is wrong with the deliveries themselves; null for nothing. */
  String trouble() {
    if (failure != null) {
      return "points cannot be delivered: " + failure;
    }
    long silentMs = nowMs() - beatMs;
    if (thread != null && !stopped && (silentMs > SILENT_MS || !thread.isAlive())) {
      return "nothing has been delivered for " + silentMs / 1_000 + " s: the thread hangs";
    }
    return null;
  }

  /** Why the disk takes no more pages; null if it does. */
  String diskTrouble() {
    return diskFailure;
  }

  /** Releases what is in memory without waiting for its window, and reads nothing back any more. */
  void drain() {
    draining = true;
    queue.drain();
    wakeUp();
  }

  void stop() {
    stopped = true;
    wakeUp();
  }
}
