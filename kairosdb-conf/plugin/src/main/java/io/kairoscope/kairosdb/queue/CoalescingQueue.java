package io.kairoscope.kairosdb.queue;

import com.google.common.collect.SetMultimap;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.function.LongPredicate;
import java.util.function.LongSupplier;
import java.util.stream.LongStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Points wait here by series, so that the store gets many of one partition at a time, which costs
 * it little more than a single one.
 *
 * <p>A point is in the file before {@link #put} returns. Memory has of it the key of its series and
 * its index in the file, in the list of the moment at which the series is due, which comes once in
 * each window; at that moment the list is sorted by series ({@link Run}) and read from the file.
 * Each series has its own moment, one of ten or more in a window: if they all waited from their first
 * point on, sensors that began to send together would be released together, too.
 *
 * <p>What memory has no room for is only in the file, and is read back in order. The file's
 * checkpoint moves to the lowest point that is not settled, whatever the order of releases, and so
 * much later that what the store's nodes may forget when they are killed can be written again ({@link
 * #rewrite}).
 *
 * <p>Of the file, memory holds everything that is not settled from the checkpoint to {@code next},
 * and nothing from there on: while something is left to be read back, new points go to the file
 * only, or they would overtake it. What was released and the store does not take while it takes
 * others is given back ({@link #giveBack}): of that memory has a bit each ({@link Parked}).
 *
 * <p>{@link #refill}, {@link #take}, {@link #takeParked}, {@link #takeAgain}, {@link #hold} and {@link
 * #checkpoint} are for one thread, that of the deliveries; the others for any.
 */
final class CoalescingQueue implements Settler.Queue {
  private static final Logger logger = LoggerFactory.getLogger(CoalescingQueue.class);
  // A key, an index, and what sorting takes of a part of them.
  static final int POINT_BYTES = 20;
  // What each list takes beside its points, at most: a chunk that is not full, and the objects.
  private static final int LIST_POINTS = Entries.CHUNK + 16;
  // From here on series are released early, before points would have to go to the file only.
  private static final double PRESSED = 0.75;
  // How far the moments are apart at which series are due. With many of them at once batches are
  // full, and the store's threads have a lot to do and then rest, instead of being woken for a few
  // partitions at a time; with ten in a window its load is still even.
  private static final long MOMENTS_APART_MS = 1_000;
  private static final long MOMENTS_IN_WINDOW = 10;
  // Read back at once: enough to put together, while nothing is delivered.
  private static final long REFILL_MS = 1_000;
  // After so long it is tried again to keep what could not be.
  private static final long UNKEPT_MS = 1_000;
  // So much later another write time begins, where the wall clock does not: it was set back.
  private static final long WRITE_TIME_MS = 50;
  // Sorted at once: a window of 60,000 points a second when there are arrears.
  private static final int RUN_POINTS = 1 << 20;
  // Bytes of heap, roughly, of what is released at a time, whatever the points' size: a part of what
  // may be on its way.
  static final long RELEASED_BYTES = 8 << 20;
  // Runs, and points of them, that are looked through for points on their way to the store.
  private static final int RUNS_KNOWN = 16;
  private static final long POINTS_KNOWN = 2 << 20;
  // No query waits until so many are stored.
  private static final int AWAITED = 1 << 20;
  private static final long POLL_MS = 5;
  // Half of the heap that points may take, for the bits of those that are settled.
  private static final long BITS_PER_BYTE = 4;

  private final PointFile file;
  private final PointFile.Reader reader;
  private final PointCodec codec;
  private final Rereading rereading;
  private final long windowMs;
  private final long maxPoints;
  private final long maxBits;
  private final LongSupplier clockMs;
  private final KeptPoints kept;

  private final TreeMap<Long, Entries> moments = new TreeMap<>();
  // Not more than a run in each.
  private final Deque<Entries> urgent = new ArrayDeque<>();
  // What is about to be a run, and whether that will be the next.
  private Entries sorting;
  private boolean sortingFirst;
  private final Deque<Run> runs = new ArrayDeque<>();
  private final Deque<Run> handedOut = new ArrayDeque<>();
  // Of runs of which it is not known any more which points they are.
  private final Deque<Release> dropped = new ArrayDeque<>();
  // Taken out of the lists while somebody looks which of them are given up.
  private final List<Entries> lookedAt = new ArrayList<>();
  // Somebody's points that cannot be stored, and that cannot be kept elsewhere yet.
  private final Deque<Long> unkept = new ArrayDeque<>();
  private long unkeptFailedMs;
  private final Acknowledged settled;
  private final Parked parked;
  private long next;
  // In the lists of moments and above; and with those in runs and on their way, not yet settled.
  private long listed;
  // The points that these could have for the memory of the bits, when it was looked at last.
  private long inBits;
  private long points;
  private long lastTakenAt;
  // When what has that write time is due from, by `clockMs`; empty if nothing has it yet.
  private OptionalLong lastTakenFrom = OptionalLong.empty();
  private boolean draining;

  /**
   * @param clockMs a clock that is never set back; only differences count
   * @param maxBytes of heap for all points that wait
   * @param keepMs how long the file keeps what is settled
   */
  CoalescingQueue(
      PointFile file,
      PointCodec codec,
      long windowMs,
      long maxBytes,
      long keepMs,
      LongSupplier clockMs)
      throws IOException {
    this.file = file;
    this.codec = codec;
    this.windowMs = windowMs;
    maxPoints = Math.max(1, maxBytes / POINT_BYTES);
    maxBits = Math.min(BITS_PER_BYTE * maxBytes, Integer.MAX_VALUE / 2);
    this.clockMs = clockMs;
    reader = file.reader();
    rereading = new Rereading(file, reader, codec);
    next = file.tail();
    settled = new Acknowledged(next);
    parked = new Parked(settled);
    kept = new KeptPoints(keepMs);
    // What comes now is later than all that may be released before it.
    lastTakenAt = file.lastTakenAt() + 1;
  }

  /**
   * Takes points: they are in the file when this returns.
   *
   * @param records are told how many of them are, also if it fails
   * @param nowMs ms since 1970
   */
  synchronized void put(RecordBuffer records, long nowMs) throws IOException {
    long nowClockMs = clockMs.getAsLong();
    for (int i = records.taken(); i < records.count(); i++) {
      put(records, i, nowMs, nowClockMs);
      records.take();
    }
  }

  private void put(RecordBuffer records, int record, long nowMs, long nowClockMs)
      throws IOException {
    // Later points wait behind what is left in the file.
    boolean first = next == file.head();
    boolean listed = first && hasRoom();
    // Never before an earlier one, even if the clock is set back: of two values of the same time
    // the store keeps the one that was written later, and of the same write time the larger. So
    // never at the same time as one that is released before.
    long takenAt = Math.max(nowMs, first && !listed ? lastTakenAt + 1 : lastTakenAt);
    long from = nowClockMs;
    if (takenAt == lastTakenAt && lastTakenFrom.isPresent()) {
      // What has the same write time is due at the same moment, as it must be released together.
      from = lastTakenFrom.getAsLong();
      if (nowClockMs - from >= WRITE_TIME_MS) {
        takenAt++;
        from = nowClockMs;
      }
    }
    long index =
        file.append(
            records.bytes(),
            records.from(record),
            records.length(record),
            records.tagsAt(record),
            takenAt);
    lastTakenAt = takenAt;
    lastTakenFrom = OptionalLong.of(from);
    if (listed) {
      long key = records.key(record);
      list(key, index, dueMs(key, from, windowMs));
    }
  }

  /** What comes from now on has a later write time than all that came before. */
  private void nextWriteTime() {
    lastTakenAt++;
    lastTakenFrom = OptionalLong.empty();
  }

  private boolean hasRoom() {
    return inLists() < maxPoints && behindLow() < maxBits;
  }

  /** A point that is not settled for long must not let the bits above it grow without bound. */
  private long behindLow() {
    return next - settled.low();
  }

  /**
   * So many points came after one that the store does not take that nothing more is read back until
   * it does; 0 while that is not so.
   */
  synchronized long heldUpBy() {
    return behindLow() < maxBits ? 0 : behindLow();
  }

  /** The points that the lists could have for the memory that they, and the bits, take. */
  private long inLists() {
    return listed + (long) LIST_POINTS * moments.size() + inBits;
  }

  private void list(long key, long index, long dueMs) {
    Entries entries = moments.computeIfAbsent(dueMs, due -> new Entries());
    if (entries.size() >= RUN_POINTS) {
      // Without a window, or read back, there may be any number of one moment.
      list(key, index, dueMs + 1);
      return;
    }
    entries.add(key, index);
    next = index + 1;
    listed++;
    points++;
  }

  /** When a series is due whose oldest point came now: within the window. */
  static long dueMs(long key, long nowMs, long windowMs) {
    if (windowMs == 0) {
      return tickMs(nowMs);
    }
    long apartMs = Math.max(1, Math.min(MOMENTS_APART_MS, windowMs / MOMENTS_IN_WINDOW));
    long momentMs = Math.floorMod(Run.mixed(key), windowMs / apartMs) * apartMs;
    return nowMs + windowMs - Math.floorMod(nowMs + momentMs, windowMs);
  }

  /** A list for each ms would have few points and take much; nobody looks more often than this. */
  private static long tickMs(long nowMs) {
    return nowMs - Math.floorMod(nowMs, Deliveries.TICK_MS);
  }

  /** Reads points back from the file while there are any and memory has room; how many. */
  int refill() throws IOException {
    giveUpUnkept();
    int count = 0;
    long takenAt = -1;
    long dueMs = clockMs.getAsLong();
    long endMs = dueMs + REFILL_MS;
    while (true) {
      long index;
      boolean room;
      synchronized (this) {
        index = next;
        room = hasRoom() && clockMs.getAsLong() < endMs;
        if (index >= file.head() || !room && count == 0) {
          return count;
        }
      }
      // Without the lock, since nobody else moves `next` now that the file has more than that.
      boolean whole = reader.load(index);
      // Those of one write time stay together, with or without room.
      if (!room && reader.takenAt() != takenAt) {
        return count;
      }
      if (reader.takenAt() != takenAt) {
        takenAt = reader.takenAt();
        dueMs = tickMs(clockMs.getAsLong());
      }
      int tagsAt = whole ? codec.tagsAt(reader) : 0;
      long key = tagsAt > 0 ? rereading.key(tagsAt) : 0;
      boolean given = tagsAt > 0 || !whole || reader.length() == 0 || isGivenUp(index);
      synchronized (this) {
        if (!given) {
          unkept.addLast(index);
          next = index + 1;
          listed++;
          points++;
        } else if (tagsAt == 0 || rereading.isForgotten(key, tagsAt, index)) {
          next = index + 1;
          settled.add(index);
        } else {
          list(key, index, dueMs);
        }
        if (next == file.head()) {
          // What comes has another moment.
          nextWriteTime();
        }
      }
      count++;
    }
  }

  /** Gives up the record that is loaded; false if it must be kept and cannot be: a full disk. */
  private boolean isGivenUp(long index) {
    // One is tried for all.
    if (!unkept.isEmpty() && unkept.getFirst() != index) {
      return false;
    }
    try {
      codec.giveUp(reader, index, true);
      return true;
    } catch (IOException full) {
      unkeptFailedMs = clockMs.getAsLong();
      logger.error("A record of the queue's file cannot be a dead letter yet: {}", full.toString());
      return false;
    }
  }

  private void giveUpUnkept() throws IOException {
    long nowMs = clockMs.getAsLong();
    if (nowMs - unkeptFailedMs < UNKEPT_MS) {
      return;
    }
    // The disk is waited for, for each, and nothing is delivered: the others come at the next step.
    while (!unkept.isEmpty() && clockMs.getAsLong() - nowMs < REFILL_MS) {
      long index = unkept.getFirst();
      // Torn since, if it cannot be loaded any more: then nobody can keep it.
      if (reader.load(index) && !isGivenUp(index)) {
        return;
      }
      unkept.removeFirst();
      synchronized (this) {
        listed--;
        settle(index);
      }
    }
  }

  /**
   * Releases series, the one that is due first, whole: those that are due, or any while memory is
   * short.
   *
   * @param enough points, after which to stop; the last series may exceed it
   */
  List<Group> take(int enough) throws IOException {
    List<Group> groups = new ArrayList<>();
    Quota quota = new Quota(enough, RELEASED_BYTES);
    while (quota.left()) {
      Run run = run();
      if (run == null) {
        break;
      }
      try {
        run.next(quota, reader, codec, groups, this::settle);
      } catch (IOException | RuntimeException | Error error) {
        if (groups.isEmpty()) {
          throw error;
        }
        // Nobody else has those of the runs before. The next call meets it again.
        return groups;
      }
      if (run.isEmpty()) {
        synchronized (this) {
          runs.remove(run);
          run.forgetOrder();
          handedOut.add(run);
        }
      }
    }
    return groups;
  }

  /** What is to be handed out now; null for nothing. */
  private Run run() {
    Entries due;
    synchronized (this) {
      // Else it could not be sorted before.
      if (sorting == null) {
        if (urgent.isEmpty() && !runs.isEmpty()) {
          return runs.getFirst();
        }
        sortingFirst = !urgent.isEmpty();
        due = sortingFirst ? urgent.removeFirst() : due();
        if (due.size() == 0) {
          return null;
        }
        sorting = due;
        listed -= due.size();
        nextWriteTime();
        dropRuns();
      }
      due = sorting;
    }
    // Sorted without the lock.
    Run run = new Run(due, Release.Kind.NEW);
    synchronized (this) {
      sorting = null;
      if (sortingFirst) {
        runs.addFirst(run);
      } else {
        runs.addLast(run);
      }
    }
    return run;
  }

  private void dropRuns() {
    handedOut.removeIf(Run::isSettled);
    dropped.removeIf(Release::done);
    long points = 0;
    for (Run run : handedOut) {
      points += run.size();
    }
    while (handedOut.size() > RUNS_KNOWN || points > POINTS_KNOWN) {
      Run oldest = handedOut.removeFirst();
      points -= oldest.size();
      dropped.addLast(oldest.release());
    }
  }

  private Entries due() {
    Entries due = new Entries();
    boolean all = isPressed();
    long nowMs = clockMs.getAsLong();
    while (!moments.isEmpty()
        && due.size() < RUN_POINTS
        && (all || moments.firstKey() <= nowMs)) {
      moments.pollFirstEntry().getValue().forEach(due::add);
    }
    return due;
  }

  private synchronized void settle(long index) {
    if (!settled.contains(index)) {
      settled.add(index);
      points--;
    }
  }

  /** These points are stored, or need not be. */
  @Override
  public void done(Collection<Point> done) {
    synchronized (this) {
      for (Point point : done) {
        // Of those that are written again a few are not settled, and are on their way themselves.
        if (!point.release().isAgain()) {
          settle(point.index());
        }
      }
    }
    for (Point point : done) {
      point.release().settled(1);
    }
  }

  /** The store does not take these, while it takes others: they wait in the file until it does. */
  @Override
  public void giveBack(RowKey rowKey, Deque<Point> left) throws IOException {
    int metric = RecordBuffer.metricKey(rowKey.getMetricName());
    long nowMs = clockMs.getAsLong();
    synchronized (this) {
      for (Point point; (point = left.peek()) != null; left.remove()) {
        long index = point.index();
        if (point.release().isAgain()) {
          kept.owe(index, nowMs);
        } else if (!settled.contains(index)) {
          parked.add(metric, index);
          points--;
        }
        point.release().settled(1);
      }
    }
  }

  /**
   * Releases some of what was given back, if it is time to try it again.
   *
   * @param enough points, after which to stop; the last series may exceed it
   */
  List<Group> takeParked(int enough) throws IOException {
    List<Group> groups = new ArrayList<>();
    Run run = parkedRun();
    if (run != null) {
      run.next(new Quota(enough, RELEASED_BYTES), reader, codec, groups, this::settle);
    }
    return groups;
  }

  /** What is to be handed out now of what is parked; null for nothing. */
  private Run parkedRun() throws IOException {
    Positions some;
    synchronized (this) {
      Run out = parked.run();
      if (out != null && !out.isSettled()) {
        return out.isEmpty() ? null : out;
      }
      long nowMs = clockMs.getAsLong();
      if (out != null) {
        parked.over(nowMs);
        kept.over(this::isSettled, nowMs);
      }
      some = parked.next(nowMs);
    }
    if (some == null) {
      return null;
    }
    List<Long> gone = new ArrayList<>();
    Run run = new Run(rereading.entries(some, gone), Release.Kind.PARKED);
    synchronized (this) {
      parked.release(some, run);
      points += some.count();
      gone.forEach(this::settle);
    }
    kept.released(some);
    return run;
  }

  private synchronized boolean isSettled(long index) {
    return settled.contains(index);
  }

  /**
   * Releases what waits of some of a metric's series now, and waits until it is settled. The others
   * go on waiting for their next points: whoever looks at one sensor of many does not make all of
   * them cost what they do alone.
   *
   * @param tags of each name one of its values; empty is all series
   * @param wakeUp is run once it is released
   * @return whether all is that was taken before; not if some of it is left in the file only, or it
   *     is more than anybody waits for
   */
  boolean flush(
      String metric, SetMultimap<String, String> tags, long timeoutMs, Runnable wakeUp)
      throws InterruptedException, IOException {
    boolean known;
    synchronized (this) {
      dropped.removeIf(Release::done);
      known = next == file.head() && dropped.isEmpty();
    }
    long[] awaited;
    try (Wanted wanted = new Wanted(metric, tags, file, codec)) {
      awaited = release(wanted);
    }
    wakeUp.run();
    if (awaited.length > AWAITED) {
      return false;
    }
    long end = System.nanoTime() + timeoutMs * 1_000_000;
    for (int at = 0; (at = settledUpTo(awaited, at)) < awaited.length; ) {
      if (System.nanoTime() >= end || isParked(awaited[at])) {
        return false;
      }
      Thread.sleep(POLL_MS);
    }
    // Only now: what was on its way may have been given back meanwhile.
    return known && !hasParked(RecordBuffer.metricKey(metric));
  }

  private synchronized boolean isParked(long index) {
    return parked.contains(index);
  }

  private synchronized boolean hasParked(int metric) {
    return parked.mayHave(metric);
  }

  /** The first from a place on that is not settled. */
  private synchronized int settledUpTo(long[] indexes, int from) {
    int at = from;
    while (at < indexes.length && settled.contains(indexes[at])) {
      at++;
    }
    return at;
  }

  /**
   * Makes what waits of the wanted series urgent; all of it that is not settled, or one more than
   * AWAITED.
   */
  private long[] release(Wanted wanted) throws IOException {
    for (Seen seen : seen()) {
      // Looked through without the lock, as there are many.
      if (wanted.isAnyIn(seen.view)) {
        synchronized (this) {
          // Else it was due meanwhile, and is in a run.
          if (moments.get(seen.dueMs) == seen.entries) {
            takeOut(seen, wanted);
          }
        }
      }
    }
    // After the lists: what left them meanwhile is here, and nothing comes back.
    wanted.lookIn(this::onTheirWay);
    LongStream.Builder awaited = LongStream.builder();
    int[] count = {0};
    onTheirWay(
        wanted,
        (key, index) -> {
          if (count[0]++ <= AWAITED) {
            awaited.add(index);
          }
        });
    return awaited.build().toArray();
  }

  private void takeOut(Seen seen, LongPredicate wanted) {
    Entries found = new Entries();
    takeOut(seen, wanted, found);
    // Keys stay where they were taken out. An empty list would be released in place of what is due.
    if (found.size() == 0) {
      return;
    }
    // What has the same write time is of one moment, and stays together.
    if (urgent.isEmpty() || urgent.getLast().size() + found.size() > RUN_POINTS) {
      urgent.addLast(found);
    } else {
      found.forEach(urgent.getLast()::add);
    }
  }

  private void takeOut(Seen seen, LongPredicate wanted, Entries found) {
    seen.entries.takeOut(seen.view, wanted, found);
    if (seen.entries.size() == 0) {
      moments.remove(seen.dueMs);
    }
  }

  /** Told of points of the wanted keys that wait for no moment any more; some are settled. */
  private void onTheirWay(LongPredicate wanted, Entries.Each each) {
    List<Entries.View> unsorted = new ArrayList<>();
    List<Run> known;
    synchronized (this) {
      urgent.forEach(entries -> unsorted.add(entries.view()));
      lookedAt.forEach(entries -> unsorted.add(entries.view()));
      if (sorting != null) {
        unsorted.add(sorting.view());
      }
      known = new ArrayList<>(runs);
      known.addAll(handedOut);
    }
    for (Entries.View view : unsorted) {
      view.forEach(wanted, each);
    }
    for (Run run : known) {
      run.forEach(wanted, each);
    }
  }

  /** What waits for a moment, as it was when somebody looked. */
  private record Seen(long dueMs, Entries entries, Entries.View view) {}

  /** All that waits for its moment; some of it is released, so what comes has another write time. */
  private synchronized List<Seen> seen() {
    nextWriteTime();
    List<Seen> all = new ArrayList<>(moments.size());
    moments.forEach((due, entries) -> all.add(new Seen(due, entries, entries.view())));
    return all;
  }

  /** Whether memory is short, so that nothing waits for its moment. */
  synchronized boolean isPressed() {
    return draining || inLists() >= PRESSED * maxPoints || next < file.head();
  }

  /** Whether there is something that must not wait for its moment. */
  synchronized boolean isUrgent() {
    return !urgent.isEmpty();
  }

  /** Tells of a point that waits, before it is given up; with the reader that has it loaded. */
  interface Covered {
    boolean covers(PointFile.Reader loaded, int tagsAt) throws IOException;
  }

  /**
   * Gives up what waits of a metric, as far as it is covered; the others are released.
   *
   * @return how many are given up
   */
  int forget(String metric, Covered covered) throws IOException {
    LongPredicate wanted = RecordBuffer.ofMetric(metric);
    PointFile.Reader own = file.reader();
    Entries found = new Entries();
    int gone = 0;
    int at = 0;
    try {
      synchronized (this) {
        for (Seen seen : seen()) {
          takeOut(seen, wanted, found);
        }
        lookedAt.add(found);
        rereading.forget(metric, covered);
      }
      for (; at < found.size(); at++) {
        long index = found.index(at);
        int tagsAt = own.load(index) ? codec.tagsAt(own) : 0;
        boolean given = tagsAt > 0 && covered.covers(own, tagsAt);
        synchronized (this) {
          if (given) {
            listed--;
            settle(index);
            gone++;
          } else {
            urge(found.key(at), index);
          }
        }
      }
    } finally {
      // If something failed: they are in no list any more.
      synchronized (this) {
        for (; at < found.size(); at++) {
          urge(found.key(at), found.index(at));
        }
        lookedAt.remove(found);
      }
      own.close();
    }
    return gone;
  }

  private void urge(long key, long index) {
    if (urgent.isEmpty() || urgent.getLast().size() >= RUN_POINTS) {
      urgent.addLast(new Entries());
    }
    urgent.getLast().add(key, index);
  }

  /**
   * A node of the store went or came. Asks for what was settled and is kept to be written again, as it
   * may lack it; and for what it did not take to be tried now.
   */
  void rewrite() {
    kept.ask();
    synchronized (this) {
      parked.tryNow();
    }
  }

  /**
   * Releases again what is kept, a part of it.
   *
   * @param most points; so that it does not stand in the way of new ones
   */
  List<Group> takeAgain(int most) throws IOException {
    List<Group> groups = new ArrayList<>();
    Run run =
        kept.run(
            file.tail(), settledEnd(), this::isSettled, clockMs.getAsLong(), rereading);
    if (run != null) {
      run.next(new Quota(most, RELEASED_BYTES), reader, codec, groups, index -> {});
    }
    return groups;
  }

  private synchronized long settledEnd() {
    return settled.end();
  }

  private synchronized long low() {
    return settled.low();
  }

  /** Whether what is kept stays although its time comes: a node that may lack it is silent. */
  void hold(boolean on) {
    kept.hold(on);
  }

  /** Moves the file's checkpoint: to the lowest point that was not settled a while ago. */
  void checkpoint() throws IOException {
    // In this order: what is parked in between is below both.
    long passed = passed();
    long keptFrom = kept.checkpoint(passed, clockMs.getAsLong());
    removeBefore(Math.min(low(), keptFrom));
    long readFrom = Math.min(keptFrom, kept.from(file.tail()));
    synchronized (this) {
      rereading.dropForgotten(readFrom, parked::mayHave);
    }
  }

  private synchronized long passed() {
    long passed = parked.passed(next);
    // What the store does not take must never keep others from being read back.
    inBits = Math.min(maxPoints / 2, (settled.bytes() + parked.bytes()) / POINT_BYTES);
    return passed;
  }

  /** How many points are kept although they are settled, or behind such. */
  long kept() {
    return passed() - kept.from(file.tail());
  }

  /** Gives up what is kept although it is settled: the disk is short. */
  void giveUpKept() throws IOException {
    removeBefore(kept.giveUp(low()));
  }

  /**
   * Nothing comes any more. What the store has all of, with its nodes well, the next start need not
   * write again. Of a node that is silent it would not hear that it went: it never saw it.
   */
  void end() throws IOException {
    if (!kept.isNeeded()) {
      giveUpKept();
    }
  }

  private void removeBefore(long index) throws IOException {
    // Not under the lock: the file may delete pages for it.
    if (file.removeBefore(index)) {
      reader.forget();
    }
  }

  /** From now on nothing waits for its window. */
  synchronized void drain() {
    draining = true;
  }

  /** What it holds now. */
  synchronized Depth depth() {
    long head = file.head();
    // Else the bits are a few of those that are on their way.
    long bytes = points * POINT_BYTES + (parked.count() == 0 ? 0 : settled.bytes());
    return new Depth(points, bytes, head - next, parked.count(), head - file.tail());
  }

  /** When the oldest point that is not settled was taken, ms since 1970; null for none. */
  Long oldestTakenAt() throws IOException {
    long low = low();
    if (low >= file.head()) {
      return null;
    }
    PointFile.Reader own = file.reader();
    try {
      return own.load(low) ? own.takenAt() : null;
    } finally {
      own.close();
    }
  }

  /**
   * How much is there.
   *
   * @param points in memory that are not settled, waiting or released
   * @param bytes of heap that these take
   * @param fileOnly points for which memory had no room
   * @param parked points that are in the file only as the store takes others, and not them
   * @param sinceCheckpoint points that a restart would release again
   */
  record Depth(long points, long bytes, long fileOnly, long parked, long sinceCheckpoint) {
    /** Points taken that are not yet settled. */
    long waiting() {
      return points + fileOnly + parked;
    }
  }
}
