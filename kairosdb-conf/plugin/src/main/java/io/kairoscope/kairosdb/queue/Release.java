package io.kairoscope.kairosdb.queue;

import java.util.concurrent.atomic.AtomicInteger;

/** Points that were released together, and how many of them are not yet settled. */
final class Release {
  private final AtomicInteger outstanding;
  private final Kind kind;

  /** What became of them before. */
  enum Kind {
    /** They were not released. */
    NEW,

    /**
     * The store had them, and they are written again in case a node of it forgot them: then they
     * are neither new there nor late, and nothing is settled by it.
     */
    AGAIN,

    /** The store did not take them while it took others: it is seen whether it does now. */
    PARKED
  }

  Release(int points, Kind kind) {
    outstanding = new AtomicInteger(points);
    this.kind = kind;
  }

  boolean isAgain() {
    return kind == Kind.AGAIN;
  }

  boolean isParked() {
    return kind == Kind.PARKED;
  }

  void settled(int points) {
    outstanding.addAndGet(-points);
  }

  boolean done() {
    return outstanding.get() <= 0;
  }
}
