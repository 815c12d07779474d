package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class SlowBodiesTest {
  private volatile long nowMs = 1_000_000;
  private final SlowBodies slow = new SlowBodies(() -> nowMs, new LongAdder());
  private final List<String> cut = new ArrayList<>();

  private SlowBodies.Body begin(String address, String name) {
    return slow.begin(() -> address, () -> cut.add(name));
  }

  private void look(long laterMs) {
    nowMs += laterMs;
    slow.look();
  }

  @Test
  void whoFallsSilentIsCut() {
    SlowBodies.Body body = begin("a", "one");
    body.waits();
    look(SlowBodies.STALLED_MS - 1);
    assertEquals(List.of(), cut);
    look(1);
    look(1);
    assertEquals(List.of("one"), cut);
  }

  @Test
  void whoSendsAByteNowAndThenIsCutToo() {
    SlowBodies.Body body = begin("a", "one");
    for (long ms = 0; ms < SlowBodies.WHOLE_MS - 1_000; ms += 1_000) {
      body.waits();
      look(1_000);
      body.came();
    }
    assertEquals(List.of(), cut);
    body.waits();
    look(1_000);
    assertEquals(List.of("one"), cut);
  }

  /** Whatever it is with one connection: the thread goes on, and cuts the others. */
  @Test
  @Timeout(60)
  void whoCannotBeCutKeepsNoOtherFromIt() throws Exception {
    CountDownLatch tried = new CountDownLatch(1);
    CountDownLatch other = new CountDownLatch(1);
    slow.begin(
            () -> "a",
            () -> {
              tried.countDown();
              throw new NoSuchMethodError("of another Jetty");
            })
        .waits();
    SlowBodies.Body body = slow.begin(() -> "b", other::countDown);
    nowMs += SlowBodies.STALLED_MS;
    Thread watch = new Thread(slow::watch);
    watch.setDaemon(true);
    watch.start();
    tried.await();
    body.waits();
    nowMs += SlowBodies.STALLED_MS;
    assertTrue(other.await(30, TimeUnit.SECONDS));
    watch.interrupt();
    watch.join();
  }

  @Test
  void whoIsNotWaitedForIsNot() {
    SlowBodies.Body works = begin("a", "works");
    works.waits();
    works.came();
    SlowBodies.Body over = begin("a", "over");
    over.waits();
    over.close();
    begin("a", "all there");
    look(10 * SlowBodies.WHOLE_MS);
    assertEquals(List.of(), cut);
  }

  @Test
  void ofOneAddressTheOldestBeyondItsShareAreCut() {
    for (int i = 0; i < SlowBodies.SLOW_OF_ONE + 3; i++) {
      begin("a", "a" + i).waits();
      nowMs++;
    }
    for (int i = 0; i < SlowBodies.SLOW_OF_ONE; i++) {
      begin("b", "b" + i).waits();
    }
    // None is slow yet: so many at once may be a burst.
    look(SlowBodies.SLOW_MS / 2);
    assertEquals(List.of(), cut);
    look(SlowBodies.SLOW_MS);
    assertEquals(List.of("a0", "a1", "a2"), cut);
  }
}
