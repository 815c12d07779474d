package io.kairoscope.kairosdb.door;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;

/** Keeps a log readable while thousands of senders meet the same trouble: a line a second. */
final class OncePerSecond {
  private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

  private final LongSupplier nanos;
  private final AtomicLong next;
  private final AtomicLong passedOver = new AtomicLong();

  OncePerSecond() {
    this(System::nanoTime);
  }

  OncePerSecond(LongSupplier nanos) {
    this.nanos = nanos;
    next = new AtomicLong(nanos.getAsLong());
  }

  /** Calls with the number of times that it did not call before, unless it is too early. */
  void run(LongConsumer log) {
    long now = nanos.getAsLong();
    long due = next.get();
    if (now - due >= 0 && next.compareAndSet(due, now + SECOND)) {
      log.accept(passedOver.getAndSet(0));
    } else {
      passedOver.incrementAndGet();
    }
  }
}
