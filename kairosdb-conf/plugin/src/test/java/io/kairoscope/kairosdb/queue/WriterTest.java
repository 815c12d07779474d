package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
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
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
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
  @TempDir Path folder;
  // Whether all that was acknowledged was found at that moment.
  private boolean found = true;
  private Writer writer;

  @BeforeEach
  void setUp() {
    writer = writer(100, 10_000, new Random(1));
  }

  private Writer writer(int batchPoints, int batchBytes, Random random) {
    return writer(store, batchPoints, batchBytes, random, IN_FLIGHT, Long.MAX_VALUE);
  }

  private Writer writer(
      Store to, int batchPoints, int batchBytes, Random random, int inFlight, long maxBytes) {
    return new Writer(
        to,
        rowKeys,
        metrics,
        row -> announced.add(row.rowKey()),
        new Batches(batchPoints, batchBytes),
        new DeadLetters(folder.resolve("dead_letters.jsonl")),
        timer,
        () -> random,
        new Returning(points -> points.forEach(this::acknowledged), () -> writer),
        stats,
        new Writer.Clocks(() -> store.nowS * 1_000, timer::nowMs),
        new Writer.Limits(inFlight, maxBytes, 1_000));
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
  void pointsAreDoneOnlyWhenTheIndexHasTheirRow() {
    writer.write(List.of(group(1, 0, 10)));
    store.succeed(askedForPoints());
    assertEquals(0, done.size());
    store.succeed(askedForIndex());
    assertEquals(10, done.size());
  }

  /** Nothing was sent, so nobody knows whether the store takes any. */
  @Test
  void pointsWhoseTimeIsOverAreNoneThatTheStoreTakes() {
    writer.write(List.of(group(1, 0, 3), group(2, 10, 3)));
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    writer.write(List.of(group(1, 20, 2)));
    store.fail(askedForPoints(), false);
    for (int i = 0; i < 5; i++) {
      writer.write(List.of(group(2, 30 + 10 * i, 3)));
      store.succeed(askedForPoints(), 3);
      failsAgain();
    }
    assertEquals(0, stats.givenBack.sum());
    writer.write(List.of(group(2, 100, 3)));
    store.succeed(askedForPoints(), 2);
    failsAgain();
    assertEquals(2, stats.givenBack.sum());
  }

  private void failsAgain() {
    while (store.asked.isEmpty()) {
      timer.pass(10);
    }
    store.fail(askedForPoints(), false);
  }

  /** The cache counts rows, whatever they take of the heap. */
  @Test
  void rowsOfHundredsOfTagsAreNotKept() {
    for (int tags : new int[] {20, 500}) {
      Map<String, String> many = new TreeMap<>();
      for (int i = 0; i < tags; i++) {
        many.put("tag" + i, "value" + i);
      }
      Series series = new Series("tagged", new TreeMap<>(many), "kairos_double");
      int before = rowKeys.getCachedKeys().size();
      writer.write(List.of(new Group(series, group(1, tags, 3).points())));
      while (!store.asked.isEmpty()) {
        store.succeed(store.asked.get(0));
      }
      assertEquals(tags == 20 ? 1 : 0, rowKeys.getCachedKeys().size() - before);
    }
    assertEquals(6, done.size());
  }

  @Test
  void whatTheStoreHadBeforeIsNeitherNewNorLate() {
    writer.write(List.of(group(1, 0, 3)));
    store.succeed(askedForIndex());
    store.succeed(askedForPoints());
    writer.write(List.of(FakeStore.again(group(1, 0, 3))));
    store.succeed(askedForPoints());
    store.succeed(askedForIndex());
    assertEquals(6, done.size());
    assertEquals(3, stats.stored.sum());
    assertEquals(1, stats.storedAfterMs.count());
  }

  /** A counter that goes back is a restart to whoever reads it. */
  @Test
  void howManyAreStoredOnlyGrows() {
    writer.write(List.of(group(1, 0, 3), group(2, 3, 3)));
    store.succeed(askedForPoints(), 2);
    assertEquals(0, stats.stored.sum(), "the index is not there yet");
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(2, stats.expired.sum());
    assertEquals(4, stats.stored.sum());
  }

  /** A node that forgot points may have forgotten the index that was written for them. */
  @Test
  void theIndexOfWhatIsWrittenAgainIsToo() {
    writer.write(List.of(taken(group(1, 0, 3), 1_000)));
    store.succeed(askedForIndex());
    store.succeed(askedForPoints());
    writer.write(List.of(taken(group(1, 3, 3), 9_000)));
    store.succeed(askedForPoints());
    assertEquals(6, done.size());
    store.index.clear();
    store.metrics.clear();

    writer.write(List.of(FakeStore.again(taken(group(1, 3, 3), 9_000))));
    store.succeed(askedForPoints());
    assertEquals(List.of(), store.asked, "that was there before these");
    writer.write(List.of(FakeStore.again(taken(group(1, 0, 3), 1_000))));
    store.succeed(askedForPoints());
    assertEquals(9, done.size(), "they wait for their index");
    assertEquals(2, askedForIndex().entries.size(), "the metric's name as well");
    store.succeed(askedForIndex());
    assertEquals(12, done.size());
    assertTrue(store.finds(series(1), 0));
  }

  private static Group taken(Group group, long takenAt) {
    return new Group(
        group.series(),
        group.points().stream()
            .map(
                point ->
                    new Point(
                        point.index(), point.time(), takenAt, point.ttlS(), point.value(), null))
            .toList());
  }

  @Test
  void laterPointsOfARowWaitForTheIndexWriteOfTheFirst() {
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
  void anotherSeriesOfTheMetricWaitsForTheMetricsName() {
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
  void aRowIsWrittenToTheIndexAgainAfterADeleteEmptiedTheCaches() {
    writer.write(List.of(group(1, 0, 1)));
    FakeStore.Asked first = askedForIndex();
    rowKeys.clear();
    metrics.clear();
    store.succeed(first);
    writer.write(List.of(group(1, 1, 1)));
    assertTrue(askedForIndex().entries.get(0).ofMetric());
    assertEquals(2, askedForIndex().entries.size());
  }

  @Test
  void aFailedBatchIsTriedUntilItIsWritten() {
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
  void aBatchThatIsTooLargeGoesOutInParts() {
    store.maxPartitions = 3;
    List<Group> groups = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      groups.add(group(i, i * 10L, 2));
    }
    writer.write(groups);
    assertEquals(1, timer.size(), "too large is no reason to wait");
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(40, done.size());
    assertTrue(stats.splits.sum() > 0);
  }

  @Test
  void theKeyIsSerialisedOnceForAllPointsOfARow() {
    for (int i = 0; i < 10; i++) {
      writer.write(List.of(group(1, i * 10L, 10)));
    }
    assertEquals(1, store.keys);
  }

  @Test
  void whatIsDoneIsFoundWhateverTheStoreAnswers() {
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

  /** Two of its three nodes are gone, and the other series' are well. */
  @Test
  void whatFillsTheRoomAndIsNotTakenIsToldOf() {
    writer = writer(store, 100, 10_000, new Random(1), IN_FLIGHT, 1_000);
    writer.write(List.of(group(1, 0, 10)));
    store.succeed(askedForIndex());
    assertFalse(writer.hasRoom());
    for (int second = 0; second < 40; second++) {
      store.asked.forEach(one -> store.fail(one, false));
      assertEquals(second >= 30, writer.trouble() != null, "after " + second + " s");
      timer.pass(1_000);
    }
    String trouble = writer.trouble();
    assertTrue(trouble.contains("nothing has been stored for 40 s"), trouble);
    assertTrue(trouble.contains("a bad day"), trouble);
    timer.pass(10_000);
    store.succeed(askedForPoints());
    assertNull(writer.trouble());
    assertTrue(writer.hasRoom());
  }

  /** Answers by another thread, and counts what is under way. */
  private static final class Counting extends FakeStore implements AutoCloseable {
    private final ExecutorService answering = Executors.newSingleThreadExecutor();
    private final AtomicInteger underWay = new AtomicInteger();
    private final AtomicInteger most = new AtomicInteger();

    @Override
    public CompletionStage<Integer> writePoints(Node node, List<Partition> batch) {
      most.accumulateAndGet(underWay.incrementAndGet(), Math::max);
      return CompletableFuture.supplyAsync(
          () -> {
            underWay.decrementAndGet();
            return 0;
          },
          answering);
    }

    @Override
    public CompletionStage<?> writeIndex(Node node, List<IndexEntry> entries, long atMs) {
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
      Writer narrow =
          new Writer(
              counting,
              rowKeys,
              metrics,
              row -> {},
              new Batches(1, 10_000),
              new DeadLetters(folder.resolve("dead_letters.jsonl")),
              new FakeTimer(),
              () -> new Random(1),
              new Returning(some -> left.countDown(), () -> writer),
              stats,
              new Writer.Clocks(() -> 0, () -> 0),
              new Writer.Limits(2, Long.MAX_VALUE, 1_000));
      // One partition, so one host: a thousand batches of a point each.
      narrow.write(List.of(group(1, 0, 1_000)));
      assertTrue(left.await(30, TimeUnit.SECONDS));
      assertTrue(counting.most.get() <= 2);
    }
  }
}
