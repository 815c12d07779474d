package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What a short disk takes, and what it does not as nothing would be gained. */
class KeptPointsTest {
  private static final long KEEP_MS = 22_000;
  private static final long LATER_MS = 11_000;
  private static final long TAIL = 3;
  private static final long END = 100;
  // A point that is parked.
  private static final long LOW = 10;

  private final KeptPoints kept = new KeptPoints(KEEP_MS);
  private final List<Long> read = new ArrayList<>();
  private final KeptPoints.Source source =
      new KeptPoints.Source() {
        @Override
        public Entries entries(long from, long to) {
          return entries(from, to, new Entries());
        }

        private Entries entries(long from, long to, Entries entries) {
          for (long index = from; index < to; index++) {
            entries.add(1, index);
            read.add(index);
          }
          return entries;
        }

        @Override
        public Entries entries(Positions positions) {
          Entries entries = new Entries();
          positions.forEach(index -> entries(index, index + 1, entries));
          return entries;
        }
      };

  private static Positions of(long... indexes) {
    Positions positions = new Positions();
    for (long index : indexes) {
      positions.add(index);
    }
    return positions;
  }

  private Run run(long tail, long nowMs) throws IOException {
    return kept.run(tail, END, index -> true, nowMs, source);
  }

  @Test
  void whatIsOwedStaysWhereTheFileHasIt() throws Exception {
    kept.owe(5, 0);
    kept.owe(50, 0);
    assertEquals(LOW, kept.giveUp(LOW));
    run(LOW, LATER_MS);
    assertEquals(List.of(50L), read);
  }

  /** What was parked, and has been settled since. */
  @Test
  void whatWasSettledLateStaysWhereTheFileHasIt() throws Exception {
    kept.released(of(5, 50));
    kept.checkpoint(END, 0);
    kept.over(index -> true, 1_000);
    kept.giveUp(LOW);
    assertEquals(50, kept.checkpoint(END, KEEP_MS));
    assertEquals(END, kept.checkpoint(END, KEEP_MS + 1_000));
  }

  @Test
  void whatIsWrittenAgainGoesOnWhereTheFileBegins() throws Exception {
    kept.ask();
    assertFalse(run(TAIL, 0).isEmpty());
    read.clear();
    kept.giveUp(LOW);
    run(LOW, 0);
    assertEquals(LOW, read.get(0));
    assertEquals(END - LOW, read.size());
    kept.giveUp(END);
    assertNull(run(END, 0));
    assertFalse(kept.isNeeded());
  }

  @Test
  void whatIsOwedAndUnderWayIsNotReadWhereItIsGone() throws Exception {
    kept.owe(5, 0);
    kept.owe(50, 0);
    run(TAIL, LATER_MS);
    assertEquals(List.of(5L, 50L), read);
    read.clear();
    kept.giveUp(LOW);
    run(LOW, LATER_MS);
    assertEquals(List.of(50L), read);
  }

  @Test
  void nothingIsGivenUpIfTheDiskGainsNothing() throws Exception {
    kept.ask();
    Run run = run(TAIL, 0);
    kept.giveUp(TAIL);
    assertEquals(run, run(TAIL, 0));
    assertTrue(kept.isNeeded());
  }
}
