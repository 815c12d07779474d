package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** What the store did not take: bits in memory, of files of any size. */
class ParkedTest {
  private static final int METRIC = 1;

  /** The lock of the queue is held, and nobody can put a point meanwhile. */
  @Test
  void manyThatAreSettledArePassedAtOnce() {
    long end = 4_000_000;
    Acknowledged settled = new Acknowledged(0);
    Parked parked = new Parked(settled);
    for (long index = 1; index < end; index++) {
      if (index != 7) {
        settled.add(index);
      }
    }
    assertEquals(0, parked.passed(end));
    parked.add(METRIC, 0);
    assertEquals(7, parked.passed(end));
    parked.add(METRIC, 7);
    assertTimeoutPreemptively(
        Duration.ofSeconds(2), () -> assertEquals(end, parked.passed(end)));
    assertEquals(0, parked.bytes());
    assertEquals(2, parked.count());
  }
}
