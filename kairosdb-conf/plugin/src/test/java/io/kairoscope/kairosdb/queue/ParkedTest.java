package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.LongPredicate;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** What the store did not take: bits in memory, of files of any size. */
class ParkedTest {
  private static final int METRIC = 1;
  private static final long PAUSE_MS = 10_000;

  private long clockMs;

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

  private static Parked parked(Acknowledged settled, long count) {
    Parked parked = new Parked(settled);
    for (long index = 0; index < count; index++) {
      parked.add(METRIC, index);
    }
    parked.passed(count);
    return parked;
  }

  /** Releases a part, of which some are taken and the others parked again. */
  private static Positions release(
      Parked parked, Acknowledged settled, long nowMs, LongPredicate taken) {
    Positions part = parked.next(nowMs);
    parked.release(part, new Run(new Entries(), Release.Kind.PARKED));
    part.forEach(
        index -> {
          if (taken.test(index)) {
            settled.add(index);
          } else {
            parked.add(METRIC, index);
          }
        });
    parked.over(nowMs);
    return part;
  }

  @Test
  void aNodeThatComesHasTheOldestTriedFirst() {
    Acknowledged settled = new Acknowledged(0);
    Parked parked = parked(settled, 5_000);
    for (int i = 0; i < 3; i++) {
      release(parked, settled, i * PAUSE_MS, index -> false);
      assertNull(parked.next(i * PAUSE_MS), "there is a pause");
    }
    parked.tryNow();
    assertEquals(0, release(parked, settled, 2 * PAUSE_MS, index -> true).next(0));
    assertEquals(1_000, parked.next(2 * PAUSE_MS).next(0));
  }

  /** A node that comes and goes does not have it begin again and again. */
  @Test
  void whatIsBeingTakenGoesOn() {
    Acknowledged settled = new Acknowledged(0);
    Parked parked = parked(settled, 5_000);
    for (long from = 0; from < 5_000; ) {
      parked.tryNow();
      Positions part = release(parked, settled, 0, index -> index % 1_000 == 500);
      assertEquals(from, part.next(0));
      from = part.last() + 1;
    }
  }

  /** Nor does it keep what is behind from its turn. */
  @Test
  void allAreTriedBesideANodeThatComesAndGoes() {
    Acknowledged settled = new Acknowledged(0);
    Parked parked = parked(settled, 20_000);
    Positions tried = new Positions();
    int parts = 0;
    for (long nowMs = 0; tried.count() < 20_000; nowMs += PAUSE_MS / 4) {
      parked.tryNow();
      assertTrue(++parts < 4 * 2 * 20, tried.count() + " were tried");
      release(parked, settled, nowMs, index -> false).forEach(tried::add);
    }
  }

  /** The range of those before them is gone for good. */
  @Test
  void whatIsWellAgainIsMetSoonBehindMillionsThatAreNot() {
    long end = 1_000_000;
    for (long well = 0; well <= end - end / 20; well += 47_501) {
      long from = well;
      Acknowledged settled = new Acknowledged(0);
      Parked parked = parked(settled, end);
      // As much and more was stored since.
      LongStream.range(end, 10 * end).forEach(settled::add);
      parked.passed(10 * end);
      int parts = 0;
      while (parked.count() == end) {
        assertTrue(++parts <= 80, "tried in vain");
        long nowMs = parts * PAUSE_MS;
        release(parked, settled, nowMs, index -> index >= from && index < from + end / 20);
      }
    }
  }

  /** As few of a place may be well again, and most of the file be stored: limits.md says how long. */
  @Test
  void oneAloneIsMetHoweverTheOthersLieInTheFile() {
    int dense = 180_000;
    for (long behind : new long[] {dense, 18_000_000}) {
      Acknowledged settled = new Acknowledged(0);
      Parked parked = parked(settled, dense);
      LongStream.range(dense, behind).forEach(settled::add);
      parked.add(METRIC, behind);
      parked.passed(behind + 1);
      assertMet(parked, settled, 137_777, 2 * dense / 1_000 + 2);
    }
  }

  /** What was behind them was stored in between. */
  @Test
  void whereNothingIsAnyMoreNothingIsLookedFor() {
    int dense = 180_000;
    long behind = 18_000_000;
    Acknowledged settled = new Acknowledged(0);
    Parked parked = parked(settled, dense);
    LongStream.range(dense, behind).forEach(settled::add);
    parked.add(METRIC, behind);
    parked.passed(behind + 1);
    assertMet(parked, settled, behind, 2 * dense / 1_000 + 4);
    // Of all places of the file those of the dense part would be one in a hundred.
    assertMet(parked, settled, 137_777, 150);
  }

  private void assertMet(Parked parked, Acknowledged settled, long well, int parts) {
    for (int i = 0; parked.contains(well); i++) {
      assertTrue(i < parts, "tried in vain");
      clockMs += PAUSE_MS;
      release(parked, settled, clockMs, index -> index == well);
    }
  }

  /** Of a store that lets all time out a part takes as long as the pause. */
  @Test
  void thePauseBeginsWithTheEndOfAPart() {
    Parked parked = parked(new Acknowledged(0), 5_000);
    Positions part = parked.next(0);
    parked.release(part, new Run(new Entries(), Release.Kind.PARKED));
    part.forEach(index -> parked.add(METRIC, index));
    parked.over(PAUSE_MS);
    assertNull(parked.next(2 * PAUSE_MS - 1));
    assertEquals(1_000, parked.next(2 * PAUSE_MS).count());
  }

  /** A page may be bad. */
  @Test
  void aPartThatCannotBeReadKeepsNoOtherFromBeingTried() {
    Acknowledged settled = new Acknowledged(0);
    Parked parked = parked(settled, 5_000);
    release(parked, settled, 0, index -> true);
    Set<Long> begun = new HashSet<>();
    for (int i = 0; i < 8; i++) {
      begun.add(parked.next(i * PAUSE_MS).next(0));
    }
    assertTrue(begun.size() > 3, begun + " were tried");
  }

  /** Parts are read from the file while nothing else is delivered. */
  @Test
  void aPartIsNotSpreadOverTheWholeFile() {
    long end = 5_000_000;
    int apart = 10_000;
    Acknowledged settled = new Acknowledged(0);
    for (long index = 0; index < end; index++) {
      if (index % apart != 0) {
        settled.add(index);
      }
    }
    Parked parked = new Parked(settled);
    for (long index = 0; index < end; index += apart) {
      parked.add(METRIC, index);
    }
    parked.passed(end);
    List<Long> tried = new ArrayList<>();
    while (tried.size() < end / apart) {
      Positions part = release(parked, settled, 0, index -> true);
      assertTrue(part.last() - part.next(0) <= 1 << 20, part.count() + " in one");
      part.forEach(tried::add);
    }
    assertEquals(LongStream.range(0, end / apart).mapToObj(i -> i * apart).toList(), tried);
  }
}
