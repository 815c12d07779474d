package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

class PositionsTest {
  private static final long FAR = 1L << 40;

  @Test
  void itIsASetInOrder() {
    for (int seed = 0; seed < 200; seed++) {
      Random random = new Random(seed);
      Positions positions = new Positions();
      TreeSet<Long> same = new TreeSet<>();
      for (int step = 0; step < 300; step++) {
        long index = FAR + random.nextInt(200_000) / 1_000 * 1_000 + random.nextInt(3);
        if (random.nextInt(3) == 0) {
          positions.remove(index);
          same.remove(index);
        } else {
          positions.add(index);
          same.add(index);
        }
        assertEquals(same.contains(index), positions.contains(index));
        assertEquals(same.size(), positions.count());
        Long next = same.ceiling(index + 1);
        assertEquals(next == null ? -1 : next, positions.next(index + 1));
        assertEquals(same.isEmpty() ? -1 : same.last(), positions.last());
      }
      List<Long> all = new ArrayList<>();
      positions.forEach(all::add);
      assertEquals(List.copyOf(same), all);
      long end = FAR + random.nextInt(220_000);
      positions.removeBefore(end);
      all.removeIf(index -> index < end);
      assertEquals(all.size(), positions.count());
      assertEquals(all.isEmpty() ? -1 : all.get(0), positions.next(0));
      all.forEach(positions::remove);
      assertEquals(0, positions.bytes());
    }
  }
}
