package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** What the doors refuse and what is written are the same, and the store takes all of it. */
class TtlTest {
  private static final long NOW = 1_800_000_000_000L;
  private static final long END_2038 = 2_147_483_646L;
  private static final long NEVER = Long.MAX_VALUE;

  private static Point point(long time, long takenAt, int ttlS) {
    return new Point(0, time, takenAt, ttlS, new byte[0], null);
  }

  @Test
  void whatTheStoreCannotTakeIsRefused() {
    Ttl ttl = new Ttl(0, false, false, NEVER);
    assertNull(ttl.refusal(0, NOW, NOW));
    assertNull(ttl.refusal(Ttl.MAX_S, NOW, NOW));
    assertEquals(
        "a ttl of 700000000 s: the store takes at most 630720000",
        ttl.refusal(700_000_000, NOW, NOW));
    assertNotNull(ttl.refusal(Integer.MAX_VALUE, NOW, NOW));
    assertNotNull(ttl.refusal(-1, NOW, NOW));
    assertNotNull(ttl.refusal(Integer.MIN_VALUE, NOW, NOW));
  }

  @Test
  void whatEndsAfterTheStoresLastSecondIsRefused() {
    Ttl ttl = new Ttl(0, false, false, END_2038);
    int left = (int) (END_2038 - NOW / 1_000);
    assertNull(ttl.refusal(left, NOW, NOW));
    assertTrue(ttl.refusal(left + 1, NOW, NOW).contains("2038-01-19T03:14:06Z"));
    assertNull(ttl.refusal(0, NOW, NOW));
  }

  @Test
  void theConfigurationsDefaultsAreTakenIntoAccount() {
    assertNotNull(new Ttl(700_000_000, false, false, NEVER).refusal(0, NOW, NOW));
    assertNull(new Ttl(700_000_000, false, false, NEVER).refusal(60, NOW, NOW));
    assertNull(new Ttl(60, true, false, NEVER).refusal(700_000_000, NOW, NOW));
    assertNull(new Ttl(60, true, false, NEVER).refusal(-5, NOW, NOW));
    // Microseconds, aligned: it is cut to what the store takes.
    Ttl aligned = new Ttl(60, false, true, NEVER);
    assertNull(aligned.refusal(0, NOW * 1_000, NOW));
    assertEquals(Ttl.MAX_S, aligned.left(point(NOW * 1_000, NOW, 0), NOW));
    assertEquals(Ttl.MAX_S, aligned.left(point(Long.MAX_VALUE, NOW, 0), NOW));
    assertEquals(-1, aligned.left(point(Long.MIN_VALUE, NOW, 0), NOW));
    assertNotNull(new Ttl(60, false, true, END_2038).refusal(0, NOW * 1_000, NOW));
  }

  @Test
  void timeIsCountedFromThePut() {
    Ttl ttl = new Ttl(0, false, false, NEVER);
    assertEquals(60, ttl.left(point(0, NOW - 999, 60), NOW));
    assertEquals(1, ttl.left(point(0, NOW - 59_000, 60), NOW));
    assertEquals(-1, ttl.left(point(0, NOW - 60_000, 60), NOW));
    assertEquals(0, ttl.left(point(0, NOW - 60_000, 0), NOW), "for ever");
    assertEquals(-1, ttl.left(point(0, NOW, -1), NOW));
  }

  /** The clock was years ahead for a moment: what was put then, or since, is refused by no store. */
  @Test
  void aClockThatWasAheadAddsNothing() {
    Ttl ttl = new Ttl(0, false, false, END_2038);
    long ahead = NOW + 30 * 365 * 86_400_000L;
    assertEquals(60, ttl.left(point(0, ahead, 60), NOW));
    int left = (int) (END_2038 - NOW / 1_000);
    // A store whose clock is a little ahead of ours takes it, too.
    assertTrue(ttl.left(point(0, NOW, left), NOW) <= left - 60);
    assertTrue(ttl.left(point(0, NOW, left), NOW) > left - 600);
  }

  @Test
  void theIndexOutlivesItsPointsAsFarAsTheStoreGoes() {
    Ttl ttl = new Ttl(0, false, false, NEVER);
    long now = NOW / 1_000;
    assertEquals(160, ttl.index(now + 60, 100, NOW));
    assertEquals(0, ttl.index(NEVER, 100, NOW));
    assertEquals(Ttl.MAX_S, ttl.index(now + Ttl.MAX_S, 1_814_400, NOW));
    assertEquals(Ttl.MAX_S, ttl.index(now + Integer.MAX_VALUE, 1_814_400, NOW));
    int clamped = new Ttl(0, false, false, END_2038).index(END_2038, 1_814_400, NOW);
    assertTrue(now + clamped <= END_2038);
    assertEquals(1, new Ttl(0, false, false, now - 5).index(now + 60, 100, NOW));
  }
}
