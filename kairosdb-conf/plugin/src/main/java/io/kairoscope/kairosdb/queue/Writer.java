package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.IndexBatch.Item;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Brings released series into the store, and reports points when they and the index entries that
 * queries need for them are written, or when the store will never have them: then, and only then.
 *
 * <p>Nothing here waits or throws. Whoever releases asks first whether there is room.
 */
final class Writer {
  private static final Logger logger = LoggerFactory.getLogger(Writer.class);
  // Attempts to work a series out before it may be the series that is at fault.
  private static final int PATIENCE = 3;
  // Longer than the driver waits for an answer, twice: so something was tried again in vain.
  private static final long STUCK_MS = 30_000;

  private final Store store;
  private final Batches batches;
  private final QueueStats stats;
  private final Timer timer;
  private final Backoff backoff;
  private final Room room;
  private final Lanes lanes;
  private final Patience patience;
  private final Retrier retrier;
  private final RowIndex index;
  private final Settler settler;
  private final Troubles troubles;
  private final PointBatch.Means means;

  /**
   * How much at a time.
   *
   * @param inFlightPerHost batches under way to a storage node
   * @param maxBytes of heap for points that were taken and are not settled, roughly
   * @param silentMs from when on a node that owes answers, while others give theirs, is left out
   */
  record Limits(int inFlightPerHost, long maxBytes, long silentMs) {
    static final long SILENT_MS = 1_000;
  }

  /** The two clocks: of the world, which may be set, and one that only goes on; both in ms. */
  record Clocks(LongSupplier nowMs, LongSupplier elapsedMs) {
    static final Clocks SYSTEM =
        new Clocks(System::currentTimeMillis, () -> System.nanoTime() / 1_000_000);
  }

  /**
   * @param announce is told of each row that is new
   * @param executor for what is done later; one thread will do
   * @param queue is told of points that are settled, or that the store does not take
   */
  Writer(
      Store store,
      DataCache<DataPointsRowKey> rowKeys,
      DataCache<TimedString> metrics,
      Consumer<Store.IndexEntry> announce,
      Batches batches,
      DeadLetters deadLetters,
      ScheduledExecutorService executor,
      Supplier<RandomGenerator> random,
      Settler.Queue queue,
      QueueStats stats,
      Clocks clocks,
      Limits limits) {
    this.store = store;
    this.batches = batches;
    this.stats = stats;
    timer = new Timer(executor, stats);
    backoff = new Backoff(random);
    room = new Room(limits.maxBytes, clocks.elapsedMs);
    lanes = new Lanes(timer, clocks.elapsedMs, limits.inFlightPerHost, limits.silentMs, stats);
    troubles = new Troubles(clocks.nowMs);
    Canary canary = new Canary(store, troubles, clocks.elapsedMs);
    patience = new Patience(room::stuckMs, clocks.elapsedMs);
    retrier =
        new Retrier(
            lanes, store, canary, troubles, timer, backoff, stats, patience, clocks.elapsedMs);
    lanes.outcome(retrier);
    index = new RowIndex(store, lanes, rowKeys, metrics, announce, stats, clocks.nowMs);
    settler = new Settler(queue, deadLetters, room, timer, backoff, stats, clocks.nowMs);
    means = new PointBatch.Means(store, settler, stats, clocks.nowMs);
  }

  /** Takes series, to write them until they are settled. Returns at once, and never throws. */
  void write(List<Group> groups) {
    if (groups.isEmpty()) {
      return;
    }
    long bytes = 0;
    for (int i = 0; i < groups.size(); i++) {
      bytes += Room.bytes(groups.get(i).points());
    }
    room.take(bytes);
    prepare(groups, 0);
  }

  /** Whether there is room for more to be taken. */
  boolean hasRoom() {
    return room.left();
  }

  /** Whether there is enough for what the store may well not take, and others beside it. */
  boolean hasRoomToSpare() {
    return room.halfLeft();
  }

  /** Waits until there is room, for a time at most; whether there is. */
  boolean awaitRoom(long ms) throws InterruptedException {
    return room.await(ms);
  }

  /** Whether a node of the store owes answers, and the driver does not take it for down. */
  boolean hasSilentNode() {
    return !lanes.silent().isEmpty();
  }

  /** Bytes that were taken and are not settled. */
  long takenBytes() {
    return room.taken();
  }

  /** Writes the index of a metric's rows again that had points since then, ms since 1970. */
  void reindex(String metric, long sinceMs) {
    index.reindex(metric, sinceMs);
  }

  /**
   * The same when a delete is over that begins now on this node.
   *
   * @return to be run then
   */
  Runnable deleting(String metric, long sinceMs) {
    return index.deleting(metric, sinceMs);
  }

  /**
   * What the store refuses whatever is written, what keeps dead letters from their file, or all
   * others from the store: a sentence each, and none when all is well.
   */
  List<String> troubles() {
    List<String> sentences = new ArrayList<>(troubles.sentences());
    if (settler.trouble() != null) {
      sentences.add(settler.trouble());
    }
    long stuckMs = patience.stuckMs();
    if (stuckMs >= STUCK_MS) {
      sentences.add(stuck(stuckMs));
    }
    return sentences;
  }

  /** What is tried again has all the room, and nobody can tell whether others would be taken. */
  private String stuck(long ms) {
    return "nothing has been stored for "
        + ms / 1_000
        + " s: points that the store does not take fill their quarter of queue_memory_mb, and those"
        + " of all other series wait behind them; the last failure: "
        + lastFailure();
  }

  /** The same in one; null when all is well. */
  String trouble() {
    List<String> sentences = troubles();
    return sentences.isEmpty() ? null : String.join("; ", sentences);
  }

  /** What the last attempt met that failed. */
  String lastFailure() {
    Throwable failure = retrier.lastFailure();
    return failure == null ? "no answer" : Troubles.reason(failure);
  }

  private void prepare(List<Group> groups, int failed) {
    List<Partition> partitions = new ArrayList<>(groups.size());
    List<Item> begun = new ArrayList<>();
    List<Group> unprepared = new ArrayList<>();
    for (int i = 0; i < groups.size(); i++) {
      Group group = groups.get(i);
      try {
        partitions.addAll(index.index(group, begun));
      } catch (Throwable error) {
        unprepared(group, failed + 1, error, unprepared);
      }
    }
    if (!unprepared.isEmpty()) {
      timer.after(backoff.delayMs(failed + 1), () -> prepare(unprepared, failed + 1));
    }
    // All of a call were released together.
    Release release = groups.get(0).points().get(0).release();
    index.write(begun, release != null && release.isParked());
    send(partitions);
  }

  private void unprepared(Group group, int failed, Throwable error, List<Group> again) {
    stats.errors.increment();
    logger.warn("Not ready to be written after {} attempts: {}", failed, group.series(), error);
    Refusal refusal = Refusal.of(error);
    boolean atFault = refusal == Refusal.CONTENT || refusal == Refusal.UNSURE;
    if (failed >= PATIENCE && atFault && canaryIsReady()) {
      settler.bury(group.series(), group.points(), Troubles.reason(error));
    } else {
      again.add(group);
    }
  }

  private boolean canaryIsReady() {
    try {
      store.prepareCanary();
      return true;
    } catch (Throwable error) {
      return false;
    }
  }

  private void send(List<Partition> partitions) {
    List<List<Partition>> all;
    try {
      all = batches.cut(partitions, lanes::choose);
    } catch (Throwable error) {
      stats.errors.increment();
      logger.error("Batches could not be cut; again later", error);
      timer.after(backoff.delayMs(PATIENCE), () -> send(partitions));
      return;
    }
    for (int i = 0; i < all.size(); i++) {
      lanes.add(new PointBatch(all.get(i), means));
    }
  }
}
