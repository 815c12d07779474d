package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;

/** What is acknowledged is in the store and found there, whatever the store answers. */
class WriterTest {
  private static final int IN_FLIGHT = 1_000;

  private final FakeStore store = new FakeStore();
  private final FakeTimer timer = new FakeTimer();
  private final QueueStats stats = new QueueStats();
  private final DataCache<DataPointsRowKey> rowKeys = new DataCache<>(1_000);
  private final DataCache<TimedString> metrics = new DataCache<>(1_000);
  private final List<DataPointsRowKey> announced = new ArrayList<>();
  private final Set<Point> done = new HashSet<>();
  private final Map<Point, Series> written = new HashMap<>();
  // Whether all that was acknowledged was found at that moment.
  private boolean found = true;
  private Writer writer = writer(100, 10_000, new Random(1));

  private Writer writer(int batchPoints, int batchBytes, Random random) {
    Retrier retrier = new Retrier(timer, new Backoff(() -> random), stats);
    RowIndex index =
        new RowIndex(
            store, retrier, rowKeys, metrics, row -> announced.add(row.rowKey()), stats, IN_FLIGHT);
    return new Writer(
        store,
        index,
        new Batches(batchPoints, batchBytes),
        retrier,
        points -> points.forEach(this::acknowledged),
        stats,
        () -> 0,
        IN_FLIGHT);
  }

  private void acknowledged(Point point) {
    assertTrue(done.add(point), "acknowledged twice");
    Series series = written.get(point);
    found &= series == null || store.finds(series, point.time());
  }

  private static Series series(int number) {
    return new Series(
        "m" + number % 7, new TreeMap<>(Map.of("sensor", "s" + number)), "kairos_double");
  }

  private static Group group(int series, long firstIndex, int points) {
    List<Point> list = new ArrayList<>();
    for (long i = firstIndex; i < firstIndex + points; i++) {
      list.add(new Point(i, i, 0, 0, new byte[8], null));
    }
    return new Group(series(series), list);
  }

  private FakeStore.Asked askedForIndex() {
    return store.asked.stream().filter(one -> !one.entries.isEmpty()).findFirst().orElseThrow();
  }

  private FakeStore.Asked askedForPoints() {
    return store.asked.stream().filter(one -> !one.batch.isEmpty()).findFirst().orElseThrow();
  }

  @Test
  void pointsAreDoneOnlyWhenTheIndexHasTheirRow() throws InterruptedException {
    writer.write(List.of(group(1, 0, 10)));
    store.succeed(askedForPoints());
    assertEquals(0, done.size());
    store.succeed(askedForIndex());
    assertEquals(10, done.size());
  }

  @Test
  void laterPointsOfARowWaitForTheIndexWriteOfTheFirst() throws InterruptedException {
    writer.write(List.of(group(1, 0, 1)));
    store.succeed(askedForPoints());
    writer.write(List.of(group(1, 1, 1)));
    store.succeed(askedForPoints());
    assertEquals(0, done.size());
    assertEquals(1, store.asked.size(), "the row is written to the index once");
    store.fail(askedForIndex(), false);
    timer.advance(60_000);
    store.succeed(askedForIndex());
    assertEquals(2, done.size());
    assertEquals(1, announced.size());
  }

  @Test
  void anotherSeriesOfTheMetricWaitsForTheMetricsName() throws InterruptedException {
    writer.write(List.of(group(1, 0, 1)));
    FakeStore.Asked first = askedForIndex();
    writer.write(List.of(group(8, 1, 1)));
    while (store.asked.size() > 1) {
      store.succeed(store.asked.stream().filter(one -> one != first).findFirst().orElseThrow());
    }
    assertEquals(0, done.size());
    store.succeed(first);
    assertEquals(2, done.size());
  }

  @Test
  void aRowIsWrittenToTheIndexAgainAfterADeleteEmptiedTheCaches() throws InterruptedException {
    writer.write(List.of(group(1, 0, 1)));
    FakeStore.Asked first = askedForIndex();
    rowKeys.clear();
    metrics.clear();
    store.succeed(first);
    writer.write(List.of(group(1, 1, 1)));
    assertTrue(askedForIndex().entries.get(0).newMetric());
  }

  @Test
  void aFailedBatchIsTriedUntilItIsWritten() throws InterruptedException {
    writer.write(List.of(group(1, 0, 5)));
    store.succeed(askedForIndex());
    for (int i = 0; i < 1_000; i++) {
      store.fail(askedForPoints(), i % 2 == 0);
      assertEquals(0, store.asked.size(), "no attempt without a pause");
      timer.advance(10_000);
    }
    assertEquals(0, done.size());
    store.succeed(askedForPoints());
    assertEquals(5, done.size());
    assertEquals(1_000, stats.retries.sum());
  }

  @Test
  void aBatchThatIsTooLargeGoesOutInParts() throws InterruptedException {
    store.maxPartitions = 3;
    List<Group> groups = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      groups.add(group(i, i * 10L, 2));
    }
    writer.write(groups);
    assertEquals(0, timer.size(), "too large is no reason to wait");
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(40, done.size());
    assertTrue(stats.splits.sum() > 0);
  }

  @Test
  void aWriteThatFailedHalfwayCanBeMadeAgain() throws InterruptedException {
    List<Group> groups = List.of(group(1, 0, 2), group(2, 10, 2), group(3, 20, 2));
    for (int places = 0; places < 3; places++) {
      store.placesLeft = places;
      assertThrows(IllegalStateException.class, () -> writer.write(groups));
    }
    writer.write(groups);
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(6, done.size());
  }

  @Test
  void theKeyIsSerialisedOnceForAllPointsOfARow() throws InterruptedException {
    for (int i = 0; i < 10; i++) {
      writer.write(List.of(group(1, i * 10L, 10)));
    }
    assertEquals(1, store.keys);
  }

  @Test
  void whatIsDoneIsFoundWhateverTheStoreAnswers() throws InterruptedException {
    for (int seed = 0; seed < 300; seed++) {
      Random random = new Random(seed);
      store.maxPartitions = 1 + random.nextInt(10);
      writer = writer(1 + random.nextInt(50), 200 + random.nextInt(5_000), random);
      written.clear();
      done.clear();
      long next = seed * 10_000L;
      for (int step = 0; step < 100; step++) {
        if (random.nextInt(3) == 0) {
          List<Group> groups = new ArrayList<>();
          // A series is in a release once.
          for (int series : random.ints(1 + random.nextInt(10), 0, 30).distinct().toArray()) {
            Group group = group(series, next, 1 + random.nextInt(20));
            next += group.points().size();
            groups.add(group);
            group.points().forEach(point -> written.put(point, group.series()));
          }
          writer.write(groups);
        }
        answer(random);
        if (random.nextInt(100) == 0) {
          rowKeys.clear();
          metrics.clear();
        }
      }
      while (!store.asked.isEmpty() || timer.size() > 0) {
        answer(random);
      }
      assertEquals(written.keySet(), done, "seed " + seed);
      assertTrue(found, "acknowledged before a query finds it, seed " + seed);
    }
  }

  private void answer(Random random) {
    Collections.shuffle(store.asked, random);
    for (int i = random.nextInt(5); i >= 0 && !store.asked.isEmpty(); i--) {
      FakeStore.Asked one = store.asked.get(0);
      if (random.nextInt(3) == 0) {
        store.fail(one, random.nextBoolean());
      } else {
        store.succeed(one);
      }
    }
    timer.advance(random.nextInt(2_000));
  }

  /** Answers by another thread, and counts what is under way. */
  private static final class Counting extends FakeStore implements AutoCloseable {
    private final ExecutorService answering = Executors.newSingleThreadExecutor();
    private final AtomicInteger underWay = new AtomicInteger();
    private final AtomicInteger most = new AtomicInteger();

    @Override
    public CompletionStage<?> writePoints(List<Partition> batch) {
      most.accumulateAndGet(underWay.incrementAndGet(), Math::max);
      return CompletableFuture.runAsync(underWay::decrementAndGet, answering);
    }

    @Override
    public CompletionStage<?> writeIndex(List<IndexEntry> entries) {
      return CompletableFuture.completedFuture(null);
    }

    @Override
    public void close() {
      answering.shutdown();
    }
  }

  @Test
  void noMoreBatchesThanAllowedAreUnderWayToAHost() throws InterruptedException {
    CountDownLatch left = new CountDownLatch(1_000);
    try (Counting counting = new Counting()) {
      Retrier retrier = new Retrier(timer, new Backoff(() -> new Random(1)), stats);
      RowIndex index = new RowIndex(counting, retrier, rowKeys, metrics, row -> {}, stats, 1);
      Batches single = new Batches(1, 10_000);
      Writer narrow =
          new Writer(
              counting, index, single, retrier, done -> left.countDown(), stats, () -> 0, 2);
      // One partition, so one host: a thousand batches of a point each.
      narrow.write(List.of(group(1, 0, 1_000)));
      left.await();
      assertTrue(counting.most.get() <= 2);
    }
  }
}
