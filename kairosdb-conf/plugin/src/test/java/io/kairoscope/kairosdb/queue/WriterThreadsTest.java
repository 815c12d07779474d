package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.OverloadedException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.datastore.cassandra.DataCache;

/** The writer among real threads and clocks: nodes that freeze, refuse, throw, and answer late. */
class WriterThreadsTest {
  private static final long SILENT_MS = 60;
  private static final int POINTS = 60_000;
  private static final int BAD = 997;

  @TempDir Path folder;

  /** Answers by several threads; a node that is frozen does so when it is no more. */
  private static final class Threads extends FakeStore implements AutoCloseable {
    final ScheduledExecutorService answering = Executors.newScheduledThreadPool(3);
    final Set<Long> stored = ConcurrentHashMap.newKeySet();
    volatile Node frozen;

    private <T> CompletionStage<T> answer(Node node, T result, Throwable refused, Runnable apply) {
      ThreadLocalRandom random = ThreadLocalRandom.current();
      int chance = random.nextInt(100);
      if (chance == 0) {
        throw new NoSuchMethodError("thrown by the driver");
      }
      CompletableFuture<T> answer = new CompletableFuture<>();
      if (chance < 20) {
        complete(answer, result, refused, apply);
      } else {
        later(answer, node, result, chance < 25 ? overloaded() : refused, apply);
      }
      return answer;
    }

    private static Throwable overloaded() {
      return new OverloadedException(null, "a bad day");
    }

    private <T> void later(
        CompletableFuture<T> answer, Node node, T result, Throwable refused, Runnable apply) {
      int us = ThreadLocalRandom.current().nextInt(3_000);
      answering.schedule(
          () -> {
            if (frozen == node) {
              later(answer, node, result, refused, apply);
            } else {
              complete(answer, result, refused, apply);
            }
          },
          us,
          TimeUnit.MICROSECONDS);
    }

    private static <T> void complete(
        CompletableFuture<T> answer, T result, Throwable refused, Runnable apply) {
      if (refused == null) {
        apply.run();
        answer.complete(result);
      } else {
        answer.completeExceptionally(refused);
      }
    }

    @Override
    public CompletionStage<Integer> writePoints(Node node, List<Partition> batch) {
      boolean bad =
          batch.stream().flatMap(part -> part.points().stream()).anyMatch(badPoint);
      Throwable refused = bad ? new InvalidQueryException("a bad one") : null;
      return answer(
          node,
          0,
          refused,
          () -> batch.forEach(part -> part.points().forEach(one -> stored.add(one.index()))));
    }

    @Override
    public CompletionStage<?> writeIndex(Node node, List<IndexEntry> entries, long atMs) {
      return answer(node, 0, null, () -> {});
    }

    @Override
    public void close() {
      answering.shutdownNow();
    }
  }

  @Test
  void nothingIsLostOrStuck() throws InterruptedException, IOException {
    QueueStats stats = new QueueStats();
    Set<Long> done = ConcurrentHashMap.newKeySet();
    AtomicLong twice = new AtomicLong();
    ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    Path letters = folder.resolve("dead_letters.jsonl");
    try (Threads store = new Threads()) {
      store.badPoint = point -> point.index() % BAD == 0;
      AtomicReference<Writer> written = new AtomicReference<>();
      Writer writer =
          new Writer(
              store,
              new DataCache<>(500),
              new DataCache<>(50),
              row -> {},
              new Batches(40, 10_000),
              new DeadLetters(letters),
              timer,
              ThreadLocalRandom::current,
              new Returning(
                  points -> points.forEach(one -> twice.addAndGet(done.add(one.index()) ? 0 : 1)),
                  written::get),
              stats,
              Writer.Clocks.SYSTEM,
              new Writer.Limits(4, 1 << 18, SILENT_MS));
      written.set(writer);
      for (long next = 0; next < POINTS; ) {
        store.frozen = next / 10_000 % 2 == 0 ? store.nodes.get((int) (next / 20_000 % 3)) : null;
        assertTrue(writer.awaitRoom(20_000), "no room, " + done.size());
        List<Group> groups = new ArrayList<>();
        for (int series = 0; series < 20; series++) {
          List<Point> points = new ArrayList<>();
          for (int i = 0; i < 10; i++) {
            points.add(new Point(next, next, 0, 0, new byte[8], null));
            next++;
          }
          int number = ThreadLocalRandom.current().nextInt(1_000);
          groups.add(
              new Group(new Series("m", new TreeMap<>(Map.of("s", "" + number)), "t"), points));
        }
        writer.write(groups);
      }
      store.frozen = null;
      for (int i = 0; i < 600 && done.size() < POINTS; i++) {
        Thread.sleep(50);
      }
      assertEquals(POINTS, done.size(), "stuck: " + writer.takenBytes() + " bytes");
      assertEquals(0, twice.get());
      assertEquals(0, writer.takenBytes());
      int bad = (POINTS + BAD - 1) / BAD;
      assertEquals(bad, stats.deadLetters.sum());
      assertEquals(bad, Files.readAllLines(letters).size());
      assertEquals(POINTS - bad, store.stored.size());
      assertEquals(POINTS - bad, stats.stored.sum());
      assertTrue(stats.silences.sum() > 0, "no node was seen to be frozen");
    } finally {
      timer.shutdownNow();
    }
  }
}
