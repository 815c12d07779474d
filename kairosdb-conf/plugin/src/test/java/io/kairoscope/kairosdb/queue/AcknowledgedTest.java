package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** The lowest outstanding index, against a sorted set. */
class AcknowledgedTest {
  @Test
  void movesOnlyPastWhatIsAcknowledged() {
    Acknowledged acknowledged = new Acknowledged(10);
    assertEquals(10, acknowledged.low());
    acknowledged.add(11);
    assertEquals(10, acknowledged.low());
    acknowledged.add(10);
    assertEquals(12, acknowledged.low());
  }

  /** What is behind a point that waits for long is counted in bits: no more heap than they need. */
  @Test
  void takesNoMoreThanAnEighthAboveABitEach() {
    Acknowledged acknowledged = new Acknowledged(0);
    for (long index = 1; index < 5_000_000; index++) {
      acknowledged.add(index);
      long needed = index / Byte.SIZE;
      assertTrue(acknowledged.bytes() <= needed + needed / 8 + 200, index + " points");
    }
  }

  @Test
  void agreesWithASortedSetInAnyOrder() {
    for (long seed = 0; seed < 5; seed++) {
      Random random = new Random(seed);
      long first = random.nextInt(1_000);
      List<Long> order = new ArrayList<>();
      for (long index = first; index < first + 300_000; index++) {
        order.add(index);
      }
      // Near to sorted, as acknowledgements are, but with some that come very late.
      for (int i = 0; i < order.size(); i++) {
        int reach = random.nextInt(10_000) == 0 ? 200_000 : 500;
        Collections.swap(order, i, Math.min(order.size() - 1, i + random.nextInt(reach)));
      }
      Acknowledged acknowledged = new Acknowledged(first);
      TreeSet<Long> outstanding = new TreeSet<>(order);
      for (long index : order) {
        acknowledged.add(index);
        outstanding.remove(index);
        long expected = outstanding.isEmpty() ? first + 300_000 : outstanding.first();
        assertEquals(expected, acknowledged.low(), "seed " + seed);
      }
    }
  }
}
