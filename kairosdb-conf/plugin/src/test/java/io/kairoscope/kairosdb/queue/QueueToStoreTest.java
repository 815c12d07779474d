package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.datastore.cassandra.DataCache;

/**
 * From put to the store, over several lives of the process that each end in a kill, with a store
 * that fails a third of what it is asked and refuses some points for good, and a disk that is full
 * now and then: every point that was taken is found in the end, or is a dead letter.
 */
class QueueToStoreTest {
  private static final int RUNS = 60;

  @TempDir Path folder;
  private final Records records = new Records();
  private Random random;
  private FakeStore store;
  private MemoryFile file;
  private Path letters;
  private long nowMs;
  // Series of each point that was taken; its index is its time.
  private final List<Integer> put = new ArrayList<>();
  private int times;

  /** What a kill takes away. */
  private final class Life {
    final FakeTimer timer = new FakeTimer();
    final QueueStats stats = new QueueStats();
    final CoalescingQueue queue;
    final Writer writer;

    Life() throws IOException {
      queue =
          new CoalescingQueue(
              file,
              records.codec,
              random.nextInt(3) * 1_000L,
              1 + random.nextInt(20_000),
              random.nextInt(3) * 1_000L,
              () -> nowMs);
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
              new DeadLetters(letters),
              timer,
              () -> chance,
              queue,
              stats,
              new Writer.Clocks(() -> nowMs, () -> nowMs),
              new Writer.Limits(1 + random.nextInt(20), 100_000, 1_000));
    }

    void deliver() throws IOException {
      queue.refill();
      // Without room, as whoever releases asks: rewriting could outpace the store for ever.
      if (writer.hasRoom()) {
        writer.write(queue.take(1 + random.nextInt(100)));
      }
      if (writer.hasRoom()) {
        writer.write(queue.takeParked(1 + random.nextInt(100)));
      }
      if (random.nextInt(20) == 0) {
        queue.rewrite();
      }
      if (writer.hasRoom()) {
        writer.write(queue.takeAgain(1 + random.nextInt(50)));
      }
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
    return Records.series(number);
  }

  private void put(CoalescingQueue queue) {
    int series = random.nextInt(25);
    file.full = random.nextInt(20) == 0;
    int time = times++;
    try {
      queue.put(records.of(series, time, time), nowMs);
      put.add(series);
    } catch (IOException full) {
      // Its sender was told.
      put.add(-1);
    }
    file.full = false;
  }

  private Set<Long> dead() throws IOException {
    Set<Long> dead = new HashSet<>();
    if (Files.exists(letters)) {
      for (String line : Files.readAllLines(letters)) {
        dead.add(new JsonParser().parse(line).getAsJsonObject().get("time").getAsLong());
      }
    }
    return dead;
  }

  @Test
  void everyPointThatWasTakenIsFoundInTheEndOrIsADeadLetter() throws Exception {
    int poisoned = 0;
    for (int seed = 0; seed < RUNS; seed++) {
      random = new Random(seed);
      store = new FakeStore();
      store.maxPartitions = 1 + random.nextInt(10);
      int every = 2 + random.nextInt(100);
      store.badPoint = point -> point.time() % every == 1;
      file = new MemoryFile();
      letters = folder.resolve("letters-" + seed);
      put.clear();
      times = 0;
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
        store.asked.clear();
      }
      Life last = new Life();
      last.queue.drain();
      for (int round = 0; last.queue.depth().waiting() > 0; round++) {
        assertTrue(round < 100_000, "does not come to an end, seed " + seed);
        last.deliver();
        last.answer();
      }
      Set<Long> dead = dead();
      for (int time = 0; time < put.size(); time++) {
        if (put.get(time) >= 0) {
          boolean bad = time % every == 1;
          poisoned += bad ? 1 : 0;
          assertEquals(bad, dead.contains((long) time), "seed " + seed + ", point " + time);
          assertTrue(
              bad || store.finds(series(put.get(time)), time),
              "lost, seed " + seed + ", point " + time);
        }
      }
    }
    assertTrue(poisoned > RUNS, "no poison: " + poisoned);
  }
}
