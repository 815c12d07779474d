package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Brings the queue's file to the disk every few milliseconds while somebody wants it there: one for
 * all requests that came meanwhile (group commit), since each takes the disk as long as a hundred.
 */
final class Syncer implements Runnable {
  private static final Logger logger = LoggerFactory.getLogger(Syncer.class);
  private static final long IDLE_MS = 1_000;
  // A disk with much to do takes a second or two. Senders give up sooner or later, too, and a 503
  // has them go elsewhere.
  private static final long HANGS_MS = 15_000;

  /** Brings all to the disk; returns up to where. */
  interface Disk {
    long force() throws IOException;
  }

  private final Disk disk;
  private final LongSupplier head;
  private final long everyMs;
  private final long hangsMs;
  private long wanted;
  // When the disk had something last, or somebody began to want it there.
  private long sinceNs;
  private long durable;
  private String failure;
  private boolean stopped;

  Syncer(Disk disk, LongSupplier head, long everyMs) {
    this(disk, head, everyMs, HANGS_MS);
  }

  /**
   * @param hangsMs after so long without an answer of the disk nobody waits for it any more
   */
  Syncer(Disk disk, LongSupplier head, long everyMs, long hangsMs) {
    this.disk = disk;
    this.head = head;
    this.everyMs = everyMs;
    this.hangsMs = hangsMs;
  }

  /**
   * Waits until what was appended before is on the disk.
   *
   * @throws NotTakenError if it cannot be brought there, or that takes too long
   */
  synchronized void sync() throws InterruptedException {
    long mine = want();
    while (durable < mine) {
      // After a failure the disk may say yes and not have it: only a restart finds out.
      if (failure != null || stopped) {
        throw new NotTakenError(
            "The queue's file is not on the disk: " + (stopped ? "shutting down" : failure), null);
      }
      long leftMs = hangsMs - waitedMs();
      if (leftMs <= 0) {
        throw new NotTakenError(hanging(), null);
      }
      wait(leftMs);
    }
  }

  /**
   * Has what was appended before brought to the disk, and waits for nothing.
   *
   * @return up to where
   */
  synchronized long want() {
    long mine = head.getAsLong();
    if (mine > wanted) {
      boolean idle = wanted <= durable;
      wanted = mine;
      if (idle) {
        sinceNs = System.nanoTime();
        // The syncer waits only then; and those who wait for it would wake up at each telnet line.
        notifyAll();
      }
    }
    return mine;
  }

  /** How long the disk has not answered although somebody wants something there. */
  private long waitedMs() {
    return wanted <= durable ? 0 : TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - sinceNs);
  }

  private String hanging() {
    return "The disk of the queue's file has not answered for " + waitedMs() / 1_000 + " s";
  }

  @Override
  public void run() {
    try {
      while (await()) {
        long began = System.nanoTime();
        long upTo = disk.force();
        synchronized (this) {
          durable = upTo;
          sinceNs = System.nanoTime();
          notifyAll();
        }
        long leftMs = everyMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        if (leftMs > 0) {
          Thread.sleep(leftMs);
        }
      }
    } catch (InterruptedException stop) {
      stop();
    } catch (Throwable error) {
      logger.error("The queue's file cannot be brought to the disk", error);
      synchronized (this) {
        failure = error.toString();
        notifyAll();
      }
    }
  }

  private synchronized boolean await() throws InterruptedException {
    while (!stopped && wanted <= durable) {
      wait(IDLE_MS);
    }
    return !stopped;
  }

  synchronized void stop() {
    stopped = true;
    notifyAll();
  }

  synchronized String trouble() {
    if (failure != null) {
      return "acknowledgements would not survive: " + failure;
    }
    return waitedMs() < hangsMs ? null : hanging();
  }
}
