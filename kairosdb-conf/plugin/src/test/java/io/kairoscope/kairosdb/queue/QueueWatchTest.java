package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class QueueWatchTest {
  private static final long HOUR_MS = TimeUnit.HOURS.toMillis(1);

  @TempDir Path folder;

  private static long ns(long ms) {
    return TimeUnit.MILLISECONDS.toNanos(ms);
  }

  private static CoalescingQueue queue(QueueFile file, Records records, long maxBytes)
      throws IOException {
    return new CoalescingQueue(file, records.codec, 0, maxBytes, 0, System::currentTimeMillis);
  }

  @Test
  void aPointGrowsOlderWhateverTheWallClockSays() throws Exception {
    try (QueueFile file = new QueueFile(folder, 1 << 20, QueueFile.Limits.NONE, false)) {
      Records records = new Records();
      CoalescingQueue queue = queue(file, records, 1 << 20);
      QueueWatch watch = new QueueWatch(queue, file, new QueueStats(), 0, () -> "", List.of());
      assertEquals(0, watch.health().oldestMs());
      // Taken just before the wall clock was set back.
      queue.put(records.of(1, 1, 1), System.currentTimeMillis() + HOUR_MS);
      watch.health();
      Thread.sleep(50);
      assertTrue(watch.health().oldestMs() >= 50, watch.health().toString());
    }
  }

  /** There is memory for that many bits only. */
  @Test
  void aPointThatHoldsUpAllOthersIsToldOf() throws Exception {
    try (QueueFile file = new QueueFile(folder, 1 << 20, QueueFile.Limits.NONE, false)) {
      Records records = new Records();
      CoalescingQueue queue = queue(file, records, 100);
      QueueWatch watch = new QueueWatch(queue, file, new QueueStats(), 0, () -> "", List.of());
      queue.put(records.of(1, 1, 1), System.currentTimeMillis());
      List<Group> stuck = queue.take(1);
      assertTrue(watch.health().healthy());
      for (int i = 2; i < 600; i++) {
        queue.put(records.of(1, i, i), System.currentTimeMillis());
        queue.take(1).forEach(group -> queue.done(group.points()));
      }
      assertTrue(queue.depth().fileOnly() > 0);
      String trouble = watch.health().troubles().get(0);
      assertTrue(trouble.contains("400 points"), trouble);
      queue.done(stuck.get(0).points());
      assertTrue(watch.health().healthy());
    }
  }

  @Test
  void whatTheStoreDoesNotTakeWhileItTakesOthersIsToldOf() throws Exception {
    try (QueueFile file = new QueueFile(folder, 1 << 20, QueueFile.Limits.NONE, false)) {
      Records records = new Records();
      CoalescingQueue queue = queue(file, records, 1 << 20);
      QueueWatch watch =
          new QueueWatch(queue, file, new QueueStats(), 0, () -> "no quorum", List.of());
      queue.put(records.of(1, 1, 1), System.currentTimeMillis() - HOUR_MS);
      Thread.sleep(200);
      Group group = queue.take(1).get(0);
      assertTrue(watch.health().troubles().get(0).endsWith("does not take it, or is behind"));
      queue.giveBack(new RowKey(group.series(), "c", 0), new ArrayDeque<>(group.points()));
      String trouble = watch.health().troubles().get(0);
      assertTrue(trouble.contains("takes others, but not 1 points"), trouble);
      assertTrue(trouble.endsWith("the last failure: no quorum"), trouble);
      assertTrue(watch.health().oldestMs() >= HOUR_MS);
      assertEquals(1, queue.depth().waiting());
      queue.takeParked(1).forEach(one -> queue.done(one.points()));
      assertTrue(watch.health().healthy());
    }
  }

  @Test
  void theSameOldestPointIsTimedUntilAnotherIsIt() {
    QueueWatch.Unmoved unmoved = new QueueWatch.Unmoved();
    assertEquals(0, unmoved.ageMs(null, ns(0)));
    assertEquals(0, unmoved.ageMs(null, ns(100)));
    assertEquals(0, unmoved.ageMs(HOUR_MS, ns(200)));
    assertEquals(70_000, unmoved.ageMs(HOUR_MS, ns(70_200)));
    assertEquals(0, unmoved.ageMs(HOUR_MS + 1, ns(70_300)));
    assertEquals(100, unmoved.ageMs(HOUR_MS + 1, ns(70_400)));
    assertEquals(0, unmoved.ageMs(null, ns(70_500)));
    assertEquals(0, unmoved.ageMs(HOUR_MS + 1, ns(70_600)));
  }
}
