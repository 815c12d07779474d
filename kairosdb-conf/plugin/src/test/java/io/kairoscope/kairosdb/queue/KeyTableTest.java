package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class KeyTableTest {
  @Test
  void itIsAMapThatGrows() {
    for (long seed = 0; seed < 20; seed++) {
      Random random = new Random(seed);
      KeyTable table = new KeyTable(true, 1 + random.nextInt(100));
      Map<Long, Long> model = new HashMap<>();
      for (int i = 0; i < 10_000; i++) {
        // Many more than once, as a series has many points; of one metric, half of them.
        long metric = seed % 2 == 0 ? 1 : random.nextInt(3);
        long key = metric << 32 | random.nextInt(3_000) + 2;
        int row = table.row(key);
        assertEquals(model.getOrDefault(key, 0L), table.number(row), "seed " + seed);
        table.number(row, i + 1);
        model.put(key, i + 1L);
      }
      assertEquals(model.size(), table.count());
      for (long key = 0; key < 4_000; key++) {
        long one = 1L << 32 | key;
        assertEquals(model.containsKey(one), table.has(one));
      }
    }
  }

  @Test
  void noKeyIsAnEmptyRow() {
    KeyTable table = new KeyTable(false, 1);
    assertFalse(table.has(0));
    table.row(0);
    assertTrue(table.has(0));
    assertEquals(1, table.count());
    table.clear();
    assertFalse(table.has(0));
    assertEquals(0, table.count());
  }
}
