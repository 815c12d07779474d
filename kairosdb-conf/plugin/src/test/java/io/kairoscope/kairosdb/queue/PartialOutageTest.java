package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.UnavailableException;
import com.google.common.collect.ImmutableSetMultimap;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Predicate;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.core.datapoints.LongDataPoint;
import org.kairosdb.datastore.cassandra.CassandraDatastore;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;
import org.kairosdb.util.KDataOutput;

/**
 * Two of four storage nodes are gone: half of the ranges have lost their quorum, for much longer than
 * memory would hold their points. The series of the others are stored as ever; and when the nodes
 * are back, all is.
 */
class PartialOutageTest {
  private static final int SERIES = 100;
  private static final long STEP_MS = 100;
  private static final long WINDOW_MS = 1_000;
  private static final long KEEP_MS = 10_000;
  private static final int PUT_A_STEP = 10;
  // Room for 1,500 points that wait, and for some 400 under way.
  private static final long MAX_BYTES = 30_000;
  private static final long FLYING_BYTES = 60_000;
  private static final int ENOUGH = 100;
  private static final int OUTAGE_STEPS = 3_000;
  // The window, attempts that failed with another's, and those of the clock.
  private static final long USUAL_MS = WINDOW_MS + 1_500;

  @TempDir Path folder;
  private final Records records = new Records();
  private final FakeStore store = new FakeStore();
  private final MemoryFile file = new MemoryFile();
  private final Random random = new Random(1);
  private long nowMs = 1_000_000;
  // Of each point: its series, its time, and when it was put; its index and value are its number.
  private final List<Integer> put = new ArrayList<>();
  private final List<Long> times = new ArrayList<>();
  private final List<Long> putAt = new ArrayList<>();
  // When they were stored first, of those that the store has not forgotten since.
  private final Map<Long, Long> doneAt = new HashMap<>();
  private Predicate<FakeStore.Asked> gone = one -> false;
  private Throwable refusal = unavailable();
  // What may be released at once: a series is, whole.
  private long releasedBytes = 200 * ENOUGH;
  // Whether some of what fails is written all the same.
  private boolean inPart = true;
  private Life life;

  private final class Life {
    final FakeTimer timer = new FakeTimer();
    final QueueStats stats = new QueueStats();
    final CoalescingQueue queue;
    final Writer writer;
    final RowIndexCaches caches = new RowIndexCaches();
    private long besideDueMs;

    Life() throws IOException {
      queue =
          new CoalescingQueue(
              file, records.codec, WINDOW_MS, MAX_BYTES, KEEP_MS, () -> nowMs);
      writer =
          new Writer(
              store,
              caches.rowKeys,
              caches.metrics,
              row -> {},
              new Batches(50, 10_000),
              new DeadLetters(folder.resolve("letters")),
              timer,
              () -> random,
              noting(queue),
              stats,
              new Writer.Clocks(() -> nowMs, () -> nowMs),
              new Writer.Limits(8, FLYING_BYTES, 1_000));
    }

    private Settler.Queue noting(CoalescingQueue to) {
      return new Settler.Queue() {
        @Override
        public void done(Collection<Point> points) {
          points.forEach(point -> doneAt.putIfAbsent(point.index(), nowMs));
          to.done(points);
        }

        @Override
        public void giveBack(RowKey rowKey, Deque<Point> left) throws IOException {
          to.giveBack(rowKey, left);
        }
      };
    }

    /** As the deliveries do it in 100 ms. */
    void deliver() throws IOException {
      queue.refill();
      if (writer.hasRoom() && nowMs >= besideDueMs) {
        besideDueMs = nowMs + 1_000;
        writer.write(queue.takeParked(ENOUGH));
      }
      boolean more = true;
      while (more && writer.hasRoom()) {
        List<Group> released = queue.take(ENOUGH);
        writer.write(released);
        more = !released.isEmpty();
      }
      if (writer.hasRoom()) {
        writer.write(queue.takeAgain(ENOUGH));
      }
      for (more = true; more && writer.hasRoomToSpare(); ) {
        List<Group> parked = queue.takeParked(ENOUGH);
        writer.write(parked);
        more = !parked.isEmpty();
      }
      queue.checkpoint();
    }
  }

  private static final class RowIndexCaches {
    final DataCache<DataPointsRowKey> rowKeys = new DataCache<>(1_000);
    final DataCache<TimedString> metrics = new DataCache<>(1_000);
  }

  @BeforeEach
  void start() throws IOException {
    life = new Life();
  }

  private static UnavailableException unavailable() {
    return new UnavailableException(ConsistencyLevel.QUORUM, 2, 1);
  }

  /** Rows are of the time of their points: all of a test are in one of each series. */
  private int rangeOf(int series) {
    RowKey key = new RowKey(Records.series(series), "fake", 0);
    ByteBuffer bytes = CassandraDatastore.DATA_POINTS_ROW_KEY_SERIALIZER.toByteBuffer(key);
    return (int) store.copies(bytes);
  }

  private boolean isIn(FakeStore.Asked one, Set<Integer> ranges) {
    return one.batch.stream().anyMatch(part -> ranges.contains((int) store.copies(part.key())));
  }

  private void goneAre(Integer... ranges) {
    Set<Integer> all = Set.of(ranges);
    gone = one -> isIn(one, all);
  }

  private boolean isGone(int series) {
    int range = rangeOf(series);
    return range < 2;
  }

  private void put(int series) throws IOException {
    // All in one row.
    put(series, put.size() / SERIES % FakeStore.ROW_MS);
  }

  private void put(int series, long time) throws IOException {
    life.queue.put(records.of(series, time, put.size()), nowMs);
    put.add(series);
    times.add(time);
    putAt.add(nowMs);
  }

  private void put() throws IOException {
    for (int i = 0; i < PUT_A_STEP; i++) {
      put(put.size() % SERIES);
    }
  }

  private void step() throws IOException {
    life.deliver();
    for (FakeStore.Asked one : List.copyOf(store.asked)) {
      if (gone.test(one)) {
        store.fail(one, inPart && random.nextInt(4) == 0, refusal);
      } else {
        store.succeed(one);
      }
    }
    nowMs += STEP_MS;
    life.timer.pass(STEP_MS);
  }

  private void steps(int count, boolean puts) throws IOException {
    for (int i = 0; i < count; i++) {
      if (puts) {
        put();
      }
      step();
      long taken = life.writer.takenBytes();
      assertTrue(taken < FLYING_BYTES + releasedBytes, taken + " bytes under way");
    }
  }

  /** What the store has of a point's series and time. */
  private long stored(int number) {
    long time = times.get(number);
    RowKey key =
        new RowKey(
            Records.series(put.get(number)), "fake", time / FakeStore.ROW_MS * FakeStore.ROW_MS);
    Map<Long, byte[]> row = store.points.getOrDefault(FakeStore.name(key), Map.of());
    byte[] value = row.get(time);
    return value == null ? -1 : numbers.getOrDefault(ByteBuffer.wrap(value), -1L);
  }

  private final Map<ByteBuffer, Long> numbers = new HashMap<>();

  private void number() throws IOException {
    for (long number = numbers.size(); number < put.size(); number++) {
      KDataOutput value = new KDataOutput();
      new LongDataPoint(0, number).writeValueToBuffer(value);
      numbers.put(ByteBuffer.wrap(value.getBytes()), number);
    }
  }

  /** Healthy ones that were put longer ago than is usual are there. */
  private void healthyAreStored() throws IOException {
    number();
    for (int number = 0; number < put.size(); number++) {
      if (!isGone(put.get(number)) && putAt.get(number) < nowMs - USUAL_MS) {
        assertTrue(
            stored(number) >= number,
            "point " + number + " of " + put.size() + " after " + (nowMs - putAt.get(number)));
      }
    }
  }

  /** The first so many are there, but for those of some series. */
  private void storedBut(IntPredicate series, int count) throws IOException {
    number();
    for (int number = 0; number < count; number++) {
      if (!series.test(put.get(number))) {
        assertTrue(stored(number) >= number, "point " + number + " of " + put.size());
      }
    }
  }

  private void allAreStored() throws IOException {
    number();
    for (int number = 0; number < put.size(); number++) {
      assertTrue(stored(number) >= number, "lost: " + number + " of " + put.size());
      assertTrue(store.finds(Records.series(put.get(number)), times.get(number)));
    }
    assertEquals(0, life.queue.depth().waiting(), life.queue.depth().toString());
  }

  private void back() throws IOException {
    gone = one -> false;
    life.queue.rewrite();
    steps(600, false);
  }

  @Test
  void seriesOfOtherRangesAreStoredAsEver() throws Exception {
    steps(100, true);
    goneAre(0, 1);
    for (int i = 0; i < OUTAGE_STEPS / 100; i++) {
      steps(100, true);
      healthyAreStored();
    }
    CoalescingQueue.Depth depth = life.queue.depth();
    assertTrue(depth.parked() > 10_000, depth.toString());
    assertTrue(depth.bytes() <= 2 * MAX_BYTES, depth.toString());
    assertEquals(0, depth.fileOnly());
    long oldest = life.queue.oldestTakenAt();
    assertTrue(nowMs - oldest >= (OUTAGE_STEPS - 50) * STEP_MS, "the oldest is a parked one");
    back();
    allAreStored();
    steps(200, false);
    assertTrue(file.tail >= put.size() - 1, "the file is given back");
  }

  /** Some of the ranges are back sooner than others. */
  @Test
  void rangesThatAreBackAreStoredWhileOthersAreNot() throws Exception {
    steps(100, true);
    goneAre(0, 1);
    steps(1_000, true);
    goneAre(0);
    steps(1_200, true);
    storedBut(series -> rangeOf(series) == 0, put.size() - 1_000);
    back();
    allAreStored();
  }

  /** Nothing else is written that would tell that the store takes others. */
  @Test
  void aRangeThatIsBackIsStoredThoughNothingElseComes() throws Exception {
    inPart = false;
    steps(100, true);
    goneAre(0);
    steps(600, true);
    goneAre(0, 1);
    steps(300, true);
    steps(200, false);
    goneAre(0);
    steps(400, false);
    storedBut(series -> rangeOf(series) == 0, put.size());
    assertTrue(life.queue.depth().parked() > 1_000, "those of the other one");
    back();
    allAreStored();
  }

  /** The same of an index: points whose own range is well cannot be found without. */
  @Test
  void anIndexThatIsGoneKeepsNoOthersWhereNothingElseComes() throws Exception {
    inPart = false;
    String metric = Records.series(3).metric();
    Predicate<Store.IndexEntry> ofMetric = entry -> entry.rowKey().getMetricName().equals(metric);
    Predicate<FakeStore.Asked> noIndex = one -> one.entries.stream().anyMatch(ofMetric);
    gone = noIndex;
    steps(600, true);
    gone = one -> noIndex.test(one) || isIn(one, Set.of(1));
    steps(300, true);
    steps(200, false);
    gone = noIndex;
    steps(400, false);
    storedBut(series -> Records.series(series).metric().equals(metric), put.size());
    back();
    allAreStored();
  }

  /** What was parked is tried now and then, and not again and again. */
  @Test
  void aStoreThatIsAwayIsAskedForNextToNothing() throws Exception {
    inPart = false;
    steps(100, true);
    goneAre(0, 1);
    steps(1_000, true);
    gone = one -> true;
    steps(100, false);
    life.queue.rewrite();
    steps(100, false);
    long before = life.stats.retries.sum();
    long parked = life.queue.depth().parked();
    assertTrue(parked > 2_000, life.queue.depth().toString());
    steps(2_000, false);
    assertTrue(life.queue.depth().parked() > parked - 1_000, life.queue.depth().toString());
    long asked = life.stats.retries.sum() - before;
    // Twenty parts, of some twenty batches and their parts each, in 200 s.
    assertTrue(asked < 4_500, asked + " batches");
    back();
    allAreStored();
  }

  /** The next life reads back all that came since, and stores what it can. */
  @Test
  void aKillMeanwhileLosesNothing() throws Exception {
    steps(100, true);
    goneAre(0, 1);
    steps(1_000, true);
    store.asked.clear();
    life = new Life();
    steps(1_000, true);
    healthyAreStored();
    store.asked.clear();
    life = new Life();
    back();
    allAreStored();
  }

  /** Of another node: the points wait in the file only. */
  @Test
  void whatIsDeletedMeanwhileDoesNotComeBack() throws Exception {
    inPart = false;
    steps(100, true);
    goneAre(0, 1);
    int from = put.size();
    steps(500, true);
    int before = put.size();
    steps(50, false);
    String metric = Records.series(3).metric();
    life.queue.forget(metric, (loaded, tagsAt) -> true);
    store.points.clear();
    steps(500, true);
    back();
    number();
    int spared = 0;
    for (int number = from; number < before; number++) {
      if (isGone(put.get(number))) {
        boolean deleted = Records.series(put.get(number)).metric().equals(metric);
        assertEquals(deleted, stored(number) < number, "point " + number);
        spared += deleted ? 0 : 1;
      }
    }
    assertTrue(spared > 500, spared + " are not of it");
    assertEquals(0, life.queue.depth().waiting());
  }

  /** Two nodes are killed: what both acknowledged last is nowhere, and waits for them to be back. */
  @Test
  void whatTheStoreForgotIsWrittenAgain() throws Exception {
    steps(100, true);
    goneAre(0, 1);
    life.queue.rewrite();
    forgets(7_000);
    steps(OUTAGE_STEPS, true);
    healthyAreStored();
    assertTrue(life.stats.givenBack.sum() > 0);
    gone = one -> false;
    life.queue.rewrite();
    steps(600, true);
    steps(50, false);
    allAreStored();
  }

  /** They are back, and killed once more before what was parked is on their disks. */
  @Test
  void whatWasParkedIsKeptAsOthersAre() throws Exception {
    steps(100, true);
    goneAre(0, 1);
    steps(1_000, true);
    gone = one -> false;
    life.queue.rewrite();
    while (life.queue.depth().parked() > 0) {
      steps(1, false);
      if (random.nextInt(20) == 0) {
        forgets(1_000);
        life.queue.rewrite();
      }
    }
    steps(20, false);
    forgets(6_000);
    life.queue.rewrite();
    steps(600, false);
    allAreStored();
  }

  /** Ranges that go and come, nodes that forget, kills: in the end all is there. */
  @Test
  void whateverGoesAndComesAllIsStoredInTheEnd() throws Exception {
    releasedBytes = 600 * ENOUGH;
    for (int seed = 0; seed < 15; seed++) {
      random.setSeed(seed);
      int events = 15 + random.nextInt(15);
      for (int event = 0; event < events; event++) {
        int dice = random.nextInt(10);
        if (dice < 5) {
          Set<Integer> ranges = new HashSet<>();
          random.ints(random.nextInt(5), 0, FakeStore.RANGES).forEach(ranges::add);
          gone = one -> isIn(one, ranges);
        } else if (dice < 6) {
          // Those may be on their way when they are written to the store, and are not forgotten.
          store.asked.clear();
          life = new Life();
        } else if (dice < 8) {
          forgets(random.nextInt((int) KEEP_MS - 2_000));
          life.queue.rewrite();
        } else {
          life.queue.rewrite();
        }
        steps(random.nextInt(60), true);
      }
      gone = one -> false;
      life.queue.rewrite();
      for (int i = 0; i < 100 && life.queue.depth().waiting() > 0; i++) {
        steps(50, false);
      }
      steps(300, false);
      try {
        allAreStored();
      } catch (AssertionError error) {
        throw new AssertionError("seed " + seed, error);
      }
    }
  }

  /** Points of some ranges that were stored lately are gone from the store. */
  private void forgets(long ms) throws IOException {
    number();
    for (var row : store.points.values()) {
      row.values()
          .removeIf(
              value -> {
                long number = numbers.get(ByteBuffer.wrap(value));
                boolean lately = doneAt.getOrDefault(number, 0L) > nowMs - ms;
                return lately
                    && isGone(put.get((int) number))
                    && doneAt.remove(number) != null;
              });
    }
  }

  /** The index of a metric is on nodes of its own, and no row can be found without it. */
  @Test
  void pointsWithoutAnIndexKeepNoOthers() throws Exception {
    String metric = Records.series(3).metric();
    gone =
        one -> one.entries.stream().anyMatch(entry -> entry.rowKey().getMetricName().equals(metric));
    steps(1_000, true);
    number();
    for (int number = 0; number < put.size() - 500; number++) {
      if (!Records.series(put.get(number)).metric().equals(metric)) {
        assertTrue(stored(number) >= number, "point " + number + " of " + put.size());
      }
    }
    back();
    allAreStored();
  }

  /** Nodes went that had forgotten the index of young rows; and none takes it again. */
  private void youngIndexIsGone() throws IOException {
    inPart = false;
    steps(40, true);
    gone = one -> !one.entries.isEmpty();
    store.index.clear();
    store.metrics.clear();
    life.queue.rewrite();
  }

  /**
   * What was stored lately is written again as nodes went, with the index that is as young; and this
   * is on them. The rows are known, and their next points need not wait for it.
   */
  @Test
  void pointsOfKnownRowsNeedNotWaitForAnIndexThatIsWrittenAgain() throws Exception {
    youngIndexIsGone();
    steps(OUTAGE_STEPS, true);
    for (int number = 0; number < put.size(); number++) {
      if (putAt.get(number) < nowMs - USUAL_MS) {
        assertTrue(doneAt.containsKey((long) number), number + " of " + put.size());
      }
    }
    assertTrue(store.index.isEmpty());
    back();
    allAreStored();
  }

  /** A full disk gives up what was to be written again, before its index was. */
  @Test
  void anIndexThatMayBeForgottenIsWrittenByWhatComes() throws Exception {
    youngIndexIsGone();
    steps(300, true);
    assertTrue(life.stats.givenBack.sum() > 0);
    life.queue.giveUpKept();
    steps(300, true);
    assertTrue(store.index.isEmpty());
    gone = one -> false;
    steps(300, true);
    steps(50, false);
    allAreStored();
  }

  /** What somebody has to mend is not of a range: the health says so until it is mended. */
  @Test
  void whatIsRefusedForATableThatIsGoneIsNotGivenBack() throws Exception {
    inPart = false;
    steps(50, true);
    refusal = new InvalidQueryException("unconfigured table string_index");
    gone = one -> one.entries.stream().anyMatch(Store.IndexEntry::ofMetric);
    // A new row of each metric.
    for (int series = 0; series < 20; series++) {
      put(series, FakeStore.ROW_MS + series);
    }
    steps(30, true);
    for (int i = 0; i < 300; i++) {
      steps(1, i % 10 == 0);
      String trouble = life.writer.trouble();
      assertTrue(trouble != null && trouble.contains("string_index"), trouble);
    }
    assertEquals(0, life.stats.givenBack.sum());
    back();
    assertNull(life.writer.trouble());
    allAreStored();
  }

  /** Written for a delete, it is nobody's who would begin it again. */
  @Test
  void theIndexOfADeleteIsWrittenInTheEnd() throws Exception {
    steps(100, true);
    String metric = Records.series(3).metric();
    gone =
        one -> one.entries.stream().anyMatch(entry -> entry.rowKey().getMetricName().equals(metric));
    inPart = false;
    store.index.clear();
    life.writer.reindex(metric, 0);
    steps(300, true);
    assertTrue(store.index.isEmpty());
    gone = one -> false;
    steps(200, false);
    assertTrue(store.finds(Records.series(3), 0));
    assertEquals(0, life.queue.depth().waiting());
  }

  /** Refused for good by nodes that are not there: that is told apart when they are. */
  @Test
  void aPoisonedPointIsADeadLetterOnceItsRangeIsBack() throws Exception {
    steps(20, true);
    goneAre(0, 1);
    store.badError = new InvalidQueryException("poison");
    store.badPoint = point -> point.index() % 400 == 203;
    steps(1_000, true);
    back();
    long bad = 0;
    for (int number = 203; number < put.size(); number += 400) {
      bad++;
    }
    assertEquals(0, life.queue.depth().waiting(), life.queue.depth().toString());
    List<String> letters = Files.readAllLines(folder.resolve("letters"));
    // One that a later one of its time replaced in a release is neither.
    assertTrue(letters.size() <= bad && letters.size() > bad / 2, letters.size() + " of " + bad);
    assertEquals(letters.size(), new HashSet<>(letters).size());
  }

  /** To read others from the file would be of no use. */
  @Test
  void aStoreThatIsAwayGetsNothingElse() throws Exception {
    steps(100, true);
    gone = one -> true;
    steps(500, true);
    CoalescingQueue.Depth depth = life.queue.depth();
    assertEquals(0, depth.parked());
    assertEquals(0, life.stats.givenBack.sum());
    assertTrue(depth.fileOnly() > 2_000, depth.toString());
    steps(500, true);
    long inFirstTurn = life.stats.givenBack.sum();
    assertTrue(inFirstTurn > 0 && inFirstTurn < 7_500, inFirstTurn + " given back");
    steps(2_000, true);
    // Another turn, of one room, and of a part of those before.
    long later = life.stats.givenBack.sum() - inFirstTurn;
    assertTrue(later > 0 && later < 1_500, later + " given back later");
    String trouble = life.writer.trouble();
    assertTrue(trouble.contains("nothing has been stored for 2"), trouble);
    back();
    assertNull(life.writer.trouble());
    allAreStored();
  }

  /** One series of a range that is gone has all the room, before others were tried. */
  @Test
  void whatFillsTheRoomGetsOutOfTheWay() throws Exception {
    steps(20, true);
    int stuck = 0;
    while (!isGone(stuck)) {
      stuck++;
    }
    steps(30, false);
    goneAre(0, 1);
    releasedBytes = 200 * 600;
    for (int i = 0; i < 5_000; i++) {
      put(stuck, i % 600);
    }
    steps(30, false);
    assertFalse(life.writer.hasRoom());
    steps(2_000, true);
    steps(100, false);
    healthyAreStored();
    back();
    allAreStored();
  }

  @Test
  void whoAsksIsToldThatSomeWait() throws Exception {
    steps(100, true);
    int series = 0;
    while (!isGone(series)) {
      series++;
    }
    steps(50, false);
    goneAre(0, 1);
    for (int i = 0; i < 50; i++) {
      put(series);
      // Or there would be nothing that the store takes.
      put(healthyOf(Records.series(series).metric()));
      step();
    }
    steps(50, false);
    assertTrue(life.queue.depth().parked() > 0);
    String metric = Records.series(series).metric();
    assertFalse(life.queue.flush(metric, ImmutableSetMultimap.of(), 0, () -> {}));
    assertTrue(life.queue.flush(metric + "x", ImmutableSetMultimap.of(), 0, () -> {}));
    back();
    assertTrue(life.queue.flush(metric, ImmutableSetMultimap.of(), 0, () -> {}));
  }

  private int healthyOf(String notOf) {
    int series = 0;
    while (isGone(series) || Records.series(series).metric().equals(notOf)) {
      series++;
    }
    return series;
  }
}
