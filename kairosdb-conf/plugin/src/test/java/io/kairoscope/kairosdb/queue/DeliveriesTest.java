package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** How long points wait beyond their window; what is delivered: {@link QueueToStoreTest}. */
class DeliveriesTest {
  @Test
  void aTenthOfTheWindowAndNeverOverASecond() {
    assertEquals(100, Deliveries.tickMs(0));
    assertEquals(100, Deliveries.tickMs(1_000));
    assertEquals(250, Deliveries.tickMs(2_500));
    assertEquals(1_000, Deliveries.tickMs(10_000));
    assertEquals(1_000, Deliveries.tickMs(30_000));
  }
}
