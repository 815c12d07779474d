package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.kairosdb.datastore.cassandra.DataCache;

/**
 * From put to the store, over several lives of the process that each end in a kill, with a store
 * that fails a third of what it is asked: every point that was taken is found in the end.
 */
class QueueToStoreTest {
  private static final int RUNS = 300;

  private Random random;
  private FakeStore store;
  private MemoryFile file;
  private long nowMs;
  private final List<Series> put = new ArrayList<>();

  /** What a kill takes away. */
  private final class Life {
    final FakeTimer timer = new FakeTimer();
    final QueueStats stats = new QueueStats();
    final CoalescingQueue queue =
        new CoalescingQueue(
            file,
            (index, record) -> sample(record),
            random.nextInt(3) * 1_000L,
            1 + random.nextInt(200_000),
            () -> nowMs);
    final Writer writer;

    Life() {
      Random chance = random;
      // Small ones too: then rows are forgotten and written to the index again.
      int cached = 1 + random.nextInt(100);
      writer =
          new Writer(
              store,
              new DataCache<>(cached),
              new DataCache<>(cached),
              row -> {},
              new Batches(1 + random.nextInt(50), 200 + random.nextInt(5_000)),
              new DeadLetters(Path.of("never")),
              timer,
              () -> chance,
              queue::done,
              stats,
              new Writer.Clocks(() -> nowMs, () -> nowMs),
              new Writer.Limits(1 + random.nextInt(20), Long.MAX_VALUE, 1_000));
    }

    void deliver() throws IOException, InterruptedException {
      queue.refill();
      writer.write(queue.take(1 + random.nextInt(100)));
      if (random.nextInt(4) == 0) {
        queue.checkpoint();
      }
    }

    void answer() {
      Collections.shuffle(store.asked, random);
      for (int i = random.nextInt(30); i > 0 && !store.asked.isEmpty(); i--) {
        FakeStore.Asked one = store.asked.get(0);
        if (random.nextInt(3) == 0) {
          store.fail(one, random.nextBoolean());
        } else {
          store.succeed(one);
        }
      }
      int by = random.nextInt(1_000);
      nowMs += by;
      timer.advance(by);
    }
  }

  private static Series series(int number) {
    return new Series("m" + number % 5, new TreeMap<>(Map.of("s", "" + number)), "t");
  }

  private static Sample sample(byte[] record) {
    ByteBuffer buffer = ByteBuffer.wrap(record);
    return new Sample(series(buffer.getInt()), buffer.getLong(), 0, new byte[8]);
  }

  private void put(CoalescingQueue queue) throws IOException {
    int series = random.nextInt(25);
    byte[] record = ByteBuffer.allocate(12).putInt(series).putLong(put.size()).array();
    queue.put(sample(record), record, nowMs);
    put.add(series(series));
  }

  @Test
  void everyPointThatWasTakenIsFoundInTheEnd() throws IOException, InterruptedException {
    for (int seed = 0; seed < RUNS; seed++) {
      random = new Random(seed);
      store = new FakeStore();
      store.maxPartitions = 1 + random.nextInt(10);
      file = new MemoryFile(() -> nowMs);
      put.clear();
      for (int lives = random.nextInt(6); lives >= 0; lives--) {
        Life life = new Life();
        for (int step = random.nextInt(60); step > 0; step--) {
          for (int i = random.nextInt(20); i > 0; i--) {
            put(life.queue);
          }
          life.deliver();
          life.answer();
        }
        // Killed. What is on its way to the store arrives there or does not.
        for (FakeStore.Asked one : List.copyOf(store.asked)) {
          store.fail(one, random.nextBoolean());
        }
      }
      Life last = new Life();
      last.queue.drain();
      for (int round = 0; last.queue.depth().waiting() > 0; round++) {
        assertTrue(round < 100_000, "does not come to an end, seed " + seed);
        last.deliver();
        last.answer();
      }
      last.queue.checkpoint();
      assertEquals(put.size(), file.tail(), "seed " + seed);
      for (int time = 0; time < put.size(); time++) {
        assertTrue(store.finds(put.get(time), time), "lost, seed " + seed + ", point " + time);
      }
    }
  }
}
