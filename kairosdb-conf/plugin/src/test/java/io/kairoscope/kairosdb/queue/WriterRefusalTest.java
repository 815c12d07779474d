package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.ServerError;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;

/** What can never be stored stops nothing else, and what could be is never given up. */
class WriterRefusalTest {
  private final FakeTimer timer = new FakeTimer();
  private final QueueStats stats = new QueueStats();
  private final DataCache<DataPointsRowKey> rowKeys = new DataCache<>(1_000);
  private final DataCache<TimedString> metrics = new DataCache<>(1_000);
  private final Set<Point> done = new HashSet<>();
  @TempDir Path folder;
  private FakeStore store = new FakeStore();
  private Path letters;
  private Consumer<Collection<Point>> onDone = points -> {};
  private Writer writer;

  @BeforeEach
  void setUp() {
    letters = folder.resolve("dead_letters.jsonl");
    writer = writer(new Random(1), 4, 50, Long.MAX_VALUE);
  }

  private Writer writer(Random random, int inFlight, int batchPoints, long maxBytes) {
    return new Writer(
        store,
        rowKeys,
        metrics,
        row -> {},
        new Batches(batchPoints, 100_000),
        new DeadLetters(letters),
        timer,
        () -> random,
        new Returning(this::settled, () -> writer),
        stats,
        new Writer.Clocks(() -> store.nowS * 1_000, timer::nowMs),
        new Writer.Limits(inFlight, maxBytes, 1_000));
  }

  private void settled(Collection<Point> points) {
    onDone.accept(points);
    for (Point point : points) {
      assertTrue(done.add(point), "settled twice");
    }
  }

  private static Series series(int number) {
    return new Series(
        "m" + number % 7, new TreeMap<>(Map.of("sensor", "s" + number)), "kairos_double");
  }

  private static Group group(int series, long first, int points) {
    return group(series, first, points, 0);
  }

  private static Group group(int series, long first, int points, int ttlS) {
    List<Point> list = new ArrayList<>();
    for (long i = first; i < first + points; i++) {
      list.add(new Point(i, i, 0, ttlS, new byte[8], null));
    }
    return new Group(series(series), list);
  }

  private Set<Long> dead() throws IOException {
    Set<Long> times = new TreeSet<>();
    if (Files.exists(letters)) {
      for (String line : Files.readAllLines(letters)) {
        JsonObject letter = new JsonParser().parse(line).getAsJsonObject();
        assertNotNull(letter.get("reason").getAsString());
        times.add(letter.get("time").getAsLong());
      }
    }
    return times;
  }

  /** The store answers whatever it is asked, for a time. */
  private void run(long ms) {
    for (long i = 0; i < ms; i += 50) {
      while (!store.asked.isEmpty()) {
        store.succeed(store.asked.get(0));
      }
      timer.advance(50);
    }
  }

  @Test
  void onePointThatIsRefusedStopsNoOther() throws IOException {
    store.badPoint = point -> point.index() == 17;
    List<Group> groups = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      groups.add(group(i, i * 10L, 10));
    }
    writer.write(groups);
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(99, done.size(), "the others at once, and not after a pause");
    run(5_000);
    assertEquals(100, done.size());
    assertEquals(Set.of(17L), dead());
    assertEquals(1, stats.deadLetters.sum());
    assertNull(writer.trouble());
    assertEquals(0, writer.takenBytes());
  }

  @Test
  void whatTheStoreHadBeforeIsNotBuriedWhenItIsWrittenAgain() throws IOException {
    writer.write(List.of(FakeStore.again(group(1, 0, 3))));
    store.badPoint = point -> point.index() == 1;
    run(60_000);
    assertEquals(3, done.size());
    assertEquals(Set.of(), dead());
    assertEquals(0, writer.takenBytes());
  }

  @Test
  void badOnesDoNotTakeTheSlotsOfGoodOnes() throws IOException {
    store.badPoint = point -> point.index() < 100;
    for (int i = 0; i < 100; i++) {
      writer.write(List.of(group(i, i, 1)));
    }
    for (int i = 100; i < 200; i++) {
      writer.write(List.of(group(i, i, 1)));
    }
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(100, done.size());
    run(10_000);
    assertEquals(200, done.size());
    assertEquals(100, dead().size());
  }

  @Test
  void whenTheStoreRefusesACanaryTooAllWait() throws IOException {
    store.badPoint = point -> true;
    store.canaryError = new InvalidQueryException("no such column");
    store.badError = store.canaryError;
    writer.write(List.of(group(1, 0, 30), group(2, 100, 30)));
    run(60_000);
    assertEquals(0, done.size());
    assertEquals(Set.of(), dead());
    assertTrue(writer.trouble().contains("data_points"), writer.trouble());
    assertTrue(writer.trouble().contains("no such column"), writer.trouble());
    assertTrue(stats.retries.sum() < 100, "and are not divided: " + stats.retries.sum());
    store.badPoint = point -> false;
    store.canaryError = null;
    run(30_000);
    assertEquals(60, done.size());
    assertNull(writer.trouble());
    assertEquals(Set.of(), dead());
  }

  @Test
  void aTableThatIsGoneKillsNothingAndIsTold() throws IOException {
    store.badEntry = entry -> true;
    store.badError = new InvalidQueryException("unconfigured table row_keys");
    writer.write(List.of(group(1, 0, 30)));
    run(60_000);
    assertEquals(0, done.size());
    assertTrue(writer.trouble().contains("row_keys"), writer.trouble());
    assertEquals(0, store.canaries, "that says enough");
    store.badEntry = entry -> false;
    run(30_000);
    assertEquals(30, done.size());
    assertNull(writer.trouble());
    assertEquals(Set.of(), dead());
  }

  @Test
  void anErrorThatSaysLittleIsGivenTimeAndThenIsThePoints() throws IOException {
    store.badPoint = point -> point.index() == 3;
    store.badError = new ServerError(null, "java.lang.AssertionError");
    writer.write(List.of(group(1, 0, 10)));
    run(60_000);
    assertEquals(10, done.size());
    assertEquals(Set.of(3L), dead());
  }

  @Test
  void aDriverThatDoesNotFitKillsNothing() throws IOException {
    store.badPoint = point -> point.index() == 3;
    store.badError = new NoSuchMethodError("of another driver");
    writer.write(List.of(group(1, 0, 10)));
    run(60_000);
    assertEquals(9, done.size());
    assertEquals(Set.of(), dead());
    store.badPoint = point -> false;
    run(30_000);
    assertEquals(10, done.size());
  }

  @Test
  void pointsWhoseIndexIsRefusedAreNotStoredInSilence() throws IOException {
    store.badEntry = entry -> "s1".equals(entry.rowKey().getTags().get("sensor"));
    writer.write(List.of(group(1, 0, 5), group(2, 10, 5), group(8, 20, 5)));
    run(10_000);
    assertEquals(15, done.size());
    // The first has also the metric's name in its name, which others wait for.
    assertTrue(dead().containsAll(Set.of(0L, 1L, 2L, 3L, 4L)), dead().toString());
    assertTrue(store.finds(series(2), 10));
    // It is not taken for indexed now.
    writer.write(List.of(group(1, 30, 5)));
    run(10_000);
    assertTrue(dead().contains(30L));
    store.badEntry = entry -> false;
    writer.write(List.of(group(1, 40, 5), group(8, 50, 5)));
    run(10_000);
    assertFalse(dead().contains(40L));
    assertTrue(store.finds(series(1), 40));
    assertTrue(store.finds(series(8), 50));
  }

  @Test
  void aPointIsNotSettledWhileItsDeadLetterCannotBeWritten() throws IOException {
    letters = folder.resolve("not yet").resolve("dead_letters.jsonl");
    writer = writer(new Random(1), 4, 50, Long.MAX_VALUE);
    store.badPoint = point -> point.index() == 0;
    writer.write(List.of(group(1, 0, 2)));
    run(30_000);
    assertEquals(1, done.size());
    assertTrue(writer.trouble().contains("dead letters"), writer.trouble());
    assertEquals(0, stats.deadLetters.sum());
    Files.createDirectory(folder.resolve("not yet"));
    run(30_000);
    assertEquals(2, done.size());
    assertEquals(Set.of(0L), dead());
    assertNull(writer.trouble());
  }

  @Test
  void whatWaitsHoldsNoSlot() {
    writer = writer(new Random(1), 1, 1, Long.MAX_VALUE);
    writer.write(List.of(group(1, 0, 3)));
    store.succeed(store.asked.get(0));
    for (int i = 0; i < 3; i++) {
      FakeStore.Asked points = points();
      assertEquals(i, points.batch.get(0).points().get(0).index(), "one after the other");
      store.fail(points, false);
    }
  }

  private FakeStore.Asked points() {
    return store.asked.stream().filter(one -> !one.batch.isEmpty()).findFirst().orElseThrow();
  }

  private FakeStore.Asked index() {
    return store.asked.stream().filter(one -> !one.entries.isEmpty()).findFirst().orElseThrow();
  }

  @Test
  void aHostThatIsSlowBlocksNoOther() {
    writer = writer(new Random(1), 1, 1, Long.MAX_VALUE);
    for (int i = 0; i < 300; i++) {
      writer.write(List.of(group(i % 60, i, 1)));
    }
    Node slow = store.nodes.get(0);
    for (boolean more = true; more; ) {
      FakeStore.Asked next =
          store.asked.stream().filter(one -> one.node != slow).findFirst().orElse(null);
      more = next != null;
      if (more) {
        store.succeed(next);
      }
    }
    long left = store.asked.stream().filter(one -> one.node == slow).count();
    assertEquals(1, left, "under way to the slow one");
    assertTrue(store.points.size() > 30, "all of the others are written");
  }

  @Test
  void thereIsRoomUntilTheBoundAndAgainWhenItIsStored() throws InterruptedException {
    writer = writer(new Random(1), 4, 50, 1_000);
    assertTrue(writer.hasRoom());
    writer.write(List.of(group(1, 0, 20)));
    assertFalse(writer.hasRoom());
    assertFalse(writer.awaitRoom(1));
    run(100);
    assertTrue(writer.hasRoom());
    assertTrue(writer.awaitRoom(1));
    assertEquals(0, writer.takenBytes());
  }

  @Test
  void anErrorAnywhereIsOvercome() throws IOException {
    List<Throwable> errors =
        List.of(
            new NoSuchMethodError("of another driver"),
            new AssertionError("never"),
            new InternalError("a page"),
            new IllegalStateException("no ring"),
            new IllegalArgumentException("what?"));
    long next = 0;
    for (String method : List.of("rows", "key", "place", "points", "pointsLater", "index")) {
      for (Throwable error : errors) {
        for (int times : new int[] {1, 2, 7}) {
          done.clear();
          store.throwing(method, times, error);
          // Canaries fail with the others.
          store.canaryError = error;
          store.throwing("canary", 1_000_000, error);
          rowKeys.clear();
          metrics.clear();
          List<Group> groups = new ArrayList<>();
          for (int series = 0; series < 5; series++) {
            groups.add(group(series, next, 4));
            next += 4;
          }
          writer.write(groups);
          run(200_000);
          String what = method + " " + error + " " + times;
          assertEquals(20, done.size(), what);
          assertEquals(0, writer.takenBytes(), what);
          store.canaryError = null;
        }
      }
    }
    assertEquals(Set.of(), dead());
  }

  @Test
  void aSeriesThatCannotBeWorkedOutIsADeadLetterToo() throws IOException {
    store.throwing("rows", 1_000, new IllegalArgumentException("what a name"));
    writer.write(List.of(group(1, 0, 3)));
    run(10_000);
    assertEquals(3, done.size());
    assertEquals(Set.of(0L, 1L, 2L), dead());
  }

  @Test
  void aQueueThatThrowsIsToldAgain() {
    int[] left = {3};
    onDone =
        points -> {
          if (left[0]-- > 0) {
            throw new NoSuchMethodError("oh");
          }
        };
    writer.write(List.of(group(1, 0, 5), group(2, 10, 5)));
    run(60_000);
    assertEquals(10, done.size());
    assertEquals(0, writer.takenBytes());
  }

  @Test
  void theIndexIsWrittenAgainForPointsThatOutliveIt() {
    store.defaultTtlS = 60;
    writer.write(List.of(group(1, 0, 1, 60)));
    run(100);
    String row = FakeStore.name(new RowKey(series(1), "fake", 0));
    assertEquals(160, store.indexTtls.get(row));
    for (store.nowS = 0; store.nowS < 100; store.nowS += 10) {
      writer.write(List.of(group(1, 10 + store.nowS, 1, 60)));
      run(100);
    }
    assertEquals(0, stats.reindexed.sum(), "it is there for longer than they are");
    writer.write(List.of(group(1, 200, 1, 500)));
    assertEquals(2, index().entries.size(), "the metric's as well");
    FakeStore.Asked points = points();
    int before = done.size();
    store.succeed(points);
    assertEquals(before, done.size(), "they wait for it");
    run(100);
    assertEquals(600, store.indexTtls.get(row));
    writer.write(List.of(group(1, 300, 1, 0)));
    run(100);
    assertEquals(0, store.indexTtls.get(row));
    writer.write(List.of(group(1, 400, 1, 60)));
    run(100);
    assertEquals(2, stats.reindexed.sum());
    assertEquals(0, store.indexTtls.get(row));
  }

  /** After a restart, an eviction, or by another node: the later write would end theirs. */
  @Test
  void theIndexOfARowThatIsNotKnownOutlivesWhatOthersMayHavePut() {
    String row = FakeStore.name(new RowKey(series(1), "fake", 0));
    writer.write(List.of(group(1, 0, 1, 0)));
    run(100);
    rowKeys.clear();
    metrics.clear();
    writer.write(List.of(group(1, 1, 1, 60)));
    run(100);
    assertEquals(0, store.indexTtls.get(row), "for ever, as the first point");
    assertEquals(0, store.indexTtls.get("m1@0"));

    store.defaultTtlS = 1_000;
    rowKeys.clear();
    metrics.clear();
    writer.write(List.of(group(1, 2, 1, 60)));
    run(100);
    assertEquals(1_100, store.indexTtls.get(row));
    assertEquals(1_100, store.indexTtls.get("m1@0"));
    // The row is known, but not who else has points of the metric.
    store.nowS = 500;
    writer.write(List.of(group(1, 3, 1, 60)));
    writer.reindex("m1", 500_000);
    run(100);
    assertEquals(600, store.indexTtls.get(row));
    assertEquals(1_100, store.indexTtls.get("m1@0"));
    metrics.clear();
    writer.write(List.of(group(8, 4, 1, 5_000)));
    run(100);
    assertEquals(5_100, store.indexTtls.get(FakeStore.name(new RowKey(series(8), "fake", 0))));
    assertEquals(5_100, store.indexTtls.get("m1@0"));
  }

  @Test
  void aDeleteElsewhereHasTheRowsWrittenAgainThatHadPointsSince() {
    store.nowS = 1_000;
    writer.write(List.of(group(1, 0, 1), group(2, 0, 1), group(8, 0, 1)));
    run(100);
    store.nowS = 2_000;
    writer.write(List.of(group(8, 1, 1)));
    run(100);
    store.nowS = 3_000;
    // This one was released before, and is still on its way.
    writer.write(List.of(group(15, 2, 1)));
    List<FakeStore.Asked> underWay = List.copyOf(store.asked);
    store.asked.clear();
    store.index.clear();
    store.metrics.clear();
    store.nowS = 4_000;
    writer.reindex("m1", 2_000_000);
    // Points that come meanwhile wait for it.
    writer.write(List.of(group(8, 3, 1)));
    store.succeed(points());
    int before = done.size();
    run(100);
    assertEquals(before + 1, done.size());
    assertTrue(store.finds(series(8), 1));
    assertFalse(store.finds(series(1), 0), "deleted, and nothing came since");
    underWay.forEach(one -> store.succeed(one));
    run(100);
    assertTrue(store.finds(series(15), 2));
  }

  /** The model: bad points, a store that is away at random, and canaries that are refused. */
  @Test
  void whatIsGoodIsStoredAndWhatIsBadIsADeadLetter() throws IOException {
    for (int seed = 0; seed < 200; seed++) {
      Random random = new Random(seed);
      store = new FakeStore();
      rowKeys.clear();
      metrics.clear();
      done.clear();
      Files.deleteIfExists(letters);
      int mod = 5 + random.nextInt(100);
      store.badPoint = point -> point.index() % mod == 3;
      int badSeries = random.nextInt(60);
      String badSensor = "s" + badSeries;
      store.badEntry =
          entry ->
              badSensor.equals(entry.rowKey().getTags().get("sensor")) && !entry.ofMetric();
      store.badError =
          random.nextBoolean()
              ? new InvalidQueryException("a bad one")
              : new ServerError(null, "a bad one");
      store.maxPartitions = 1 + random.nextInt(30);
      writer =
          writer(random, 1 + random.nextInt(5), 1 + random.nextInt(60), 1 + random.nextInt(9_000));
      Map<Point, Series> put = new HashMap<>();
      long next = 0;
      for (int step = 0; step < 60; step++) {
        if (writer.hasRoom()) {
          List<Group> groups = new ArrayList<>();
          for (int series : random.ints(1 + random.nextInt(10), 0, 30).distinct().toArray()) {
            Group group = group(series, next, 1 + random.nextInt(20));
            next += group.points().size();
            groups.add(group);
            group.points().forEach(point -> put.put(point, group.series()));
          }
          writer.write(groups);
        }
        if (random.nextInt(50) == 0) {
          rowKeys.clear();
          metrics.clear();
        }
        if (random.nextInt(10) == 0) {
          store.canaryError = random.nextBoolean() ? null : new ServerError(null, "sick");
        }
        answer(random, 4);
      }
      store.canaryError = null;
      for (int round = 0; done.size() < put.size(); round++) {
        assertTrue(round < 20_000, "stuck, seed " + seed);
        // In the end it takes all that is good: what is refused with an error that says little is
        // counted anew each time it is given back, and while every fourth write fails that is often.
        answer(random, round < 10_000 ? 4 : Integer.MAX_VALUE);
      }
      assertEquals(put.keySet(), done, "seed " + seed);
      assertEquals(0, writer.takenBytes(), "seed " + seed);
      Set<Long> dead = dead();
      put.forEach(
          (point, series) -> {
            boolean bad = store.badPoint.test(point) || series.equals(series(badSeries));
            if (bad) {
              assertTrue(dead.contains(point.time()), "not told: " + point);
            } else {
              assertTrue(store.finds(series, point.time()), "lost: " + point);
              assertFalse(dead.contains(point.time()), "given up: " + point);
            }
          });
    }
  }

  /** Some of what was asked is answered; one of so many fails. */
  private void answer(Random random, int fails) {
    Collections.shuffle(store.asked, random);
    for (int i = random.nextInt(30); i >= 0 && !store.asked.isEmpty(); i--) {
      FakeStore.Asked one = store.asked.get(0);
      if (random.nextInt(fails) == 0) {
        store.fail(one, random.nextBoolean());
      } else {
        store.succeed(one);
      }
    }
    timer.advance(random.nextInt(2_000));
  }
}
