package io.kairoscope.kairosdb.queue;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** A timer without a thread or a clock: work is done when the test says that its time has come. */
final class FakeTimer extends ScheduledThreadPoolExecutor {
  private record Due(long atMs, Runnable work) {}

  private final PriorityQueue<Due> due = new PriorityQueue<>(Comparator.comparing(Due::atMs));
  private long nowMs;

  FakeTimer() {
    super(0);
  }

  @Override
  public ScheduledFuture<?> schedule(Runnable work, long delay, TimeUnit unit) {
    due.add(new Due(nowMs + unit.toMillis(delay), work));
    return null;
  }

  int size() {
    return due.size();
  }

  long nowMs() {
    return nowMs;
  }

  /** Time passes in small steps, as it does: so that nothing looks as if it had stood still. */
  void pass(long ms) {
    for (long left = ms; left > 0; left -= 10) {
      advance(Math.min(10, left));
    }
  }

  void advance(long ms) {
    nowMs += ms;
    while (!due.isEmpty() && due.peek().atMs() <= nowMs) {
      due.poll().work().run();
    }
  }
}
