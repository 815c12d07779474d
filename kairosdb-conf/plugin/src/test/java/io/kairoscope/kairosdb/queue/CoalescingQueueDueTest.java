package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSortedMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.api.Test;

/** At which moments of the window series are due. */
class CoalescingQueueDueTest {
  private static final int SERIES = 10_000;
  private static final Records RECORDS = new Records();

  /** Of 10,000 series, how many are due at which moment if their first point comes now. */
  private static Map<Long, Long> due(long nowMs, long windowMs, boolean metrics) {
    return IntStream.range(0, SERIES)
        .mapToLong(i -> key(i, metrics))
        .mapToObj(key -> CoalescingQueue.dueMs(key, nowMs, windowMs))
        .collect(Collectors.groupingBy(due -> due, TreeMap::new, Collectors.counting()));
  }

  private static long key(int i, boolean metrics) {
    String name = "sensor.%05d".formatted(i);
    return RECORDS
        .of(metrics ? name : "m", ImmutableSortedMap.of("s", metrics ? "1" : name), 0, 0, 0)
        .key(0);
  }

  @ParameterizedTest
  @CsvSource({
    "30000, 30, 1000, true",
    "15000, 15, 1000, false",
    "10000, 10, 1000, true",
    "3000, 10, 300, false",
    "7, 7, 1, true"
  })
  void manyTogetherAndAsManyEachTime(long windowMs, int moments, long apartMs, boolean metrics) {
    long nowMs = 123_456_789;

    Map<Long, Long> due = due(nowMs, windowMs, metrics);

    assertEquals(moments, due.size());
    long last = 0;
    for (Map.Entry<Long, Long> moment : due.entrySet()) {
      assertTrue(moment.getKey() > nowMs && moment.getKey() <= nowMs + windowMs, "in the window");
      assertTrue(last == 0 || moment.getKey() - last == apartMs, "as far apart as all");
      last = moment.getKey();
      double share = moment.getValue() * moments / (double) SERIES;
      assertTrue(share > 0.5 && share < 2, "an even stream");
    }
    // The same moments for those who come later: otherwise each would have a release of its own.
    assertTrue(due.keySet().containsAll(due(nowMs + 1, windowMs, metrics).keySet().stream()
        .filter(moment -> moment <= nowMs + windowMs).toList()));
  }

  @Test
  void atOnceWithoutAWindow() {
    // Those of a tick together.
    assertEquals(Map.of(100L, (long) SERIES), due(105, 0, true));
  }
}
