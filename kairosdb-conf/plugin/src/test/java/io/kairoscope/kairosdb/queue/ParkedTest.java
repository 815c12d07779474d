package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;
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

  @Test
  void whatIsTriedBeginsWithTheOldest() {
    Parked parked = new Parked(new Acknowledged(0));
    for (long index = 0; index < 5_000; index++) {
      parked.add(METRIC, index);
    }
    Positions part = parked.next(0);
    parked.release(part, new Run(new Entries(), false));
    part.forEach(index -> parked.add(METRIC, index));
    parked.tryAll();
    parked.over(0);
    assertEquals(0, parked.next(0).next(0));
  }

  /** A node that comes and goes does not have it begin again and again. */
  @Test
  void whatIsBeingTriedGoesOn() {
    Parked parked = new Parked(new Acknowledged(0));
    for (long index = 0; index < 5_000; index++) {
      parked.add(METRIC, index);
    }
    parked.tryAll();
    long from = 0;
    while (from < 4_000) {
      Positions part = parked.next(0);
      assertEquals(from, part.next(0));
      from = part.last() + 1;
      parked.release(part, new Run(new Entries(), false));
      part.forEach(index -> parked.add(METRIC, index));
      parked.tryAll();
      parked.over(0);
    }
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
    parked.tryAll();
    List<Long> tried = new ArrayList<>();
    while (tried.size() < end / apart) {
      Positions part = parked.next(0);
      assertTrue(part.last() - part.next(0) <= 1 << 20, part.count() + " in one");
      part.forEach(tried::add);
      parked.release(part, new Run(new Entries(), false));
      part.forEach(index -> parked.add(METRIC, index));
      parked.over(0);
    }
    assertEquals(LongStream.range(0, end / apart).mapToObj(i -> i * apart).toList(), tried);
  }
}
