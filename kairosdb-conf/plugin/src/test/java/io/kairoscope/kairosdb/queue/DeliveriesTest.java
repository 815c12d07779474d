package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSetMultimap;
import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.kairosdb.datastore.cassandra.DataCache;

/** The one thread that stores anything: no error ends it, and the health check knows of each. */
@Timeout(60)
class DeliveriesTest {
  @TempDir Path folder;
  private final Records records = new Records();
  private final MemoryFile file = new MemoryFile();
  private final QueueStats stats = new QueueStats();
  private final FakeStore store = new FakeStore();
  private final Set<Point> done = ConcurrentHashMap.newKeySet();
  private final AtomicReference<Throwable> failure = new AtomicReference<>();
  private final AtomicInteger failed = new AtomicInteger();
  private final AtomicInteger steps = new AtomicInteger();
  private CoalescingQueue queue;
  private Deliveries deliveries;
  private Thread thread;
  private Deliveries.Disk disk = () -> {};

  @BeforeEach
  void make() throws Exception {
    queue = new CoalescingQueue(file, records.codec, 0, 1 << 20, 0, () -> 0);
    Random random = new Random(1);
    Writer writer =
        new Writer(
            store,
            new DataCache<>(100),
            new DataCache<>(100),
            row -> {},
            new Batches(50, 100_000),
            new DeadLetters(folder.resolve("dead_letters.jsonl")),
            new FakeTimer(),
            () -> random,
            new Returning(
                points -> {
                  queue.done(points);
                  done.addAll(points);
                },
                () -> null),
            stats,
            new Writer.Clocks(() -> 0, () -> 0),
            new Writer.Limits(100, 1 << 20, 1_000));
    deliveries = new Deliveries(queue, writer, this::prepare, stats, 100);
    thread = new Thread(deliveries);
    thread.setDaemon(true);
  }

  private void prepare() throws IOException {
    steps.incrementAndGet();
    if (failure.get() instanceof Error error) {
      failed.incrementAndGet();
      throw error;
    }
    if (failure.get() instanceof RuntimeException error) {
      failed.incrementAndGet();
      throw error;
    }
    disk.prepare();
  }

  @Test
  void noErrorEndsIt() throws Exception {
    thread.start();
    int put = 0;
    for (Throwable error :
        List.of(
            new NoSuchMethodError("of another driver"),
            new InternalError("a page"),
            new StackOverflowError(),
            new IllegalStateException("what?"))) {
      failed.set(0);
      failure.set(error);
      queue.put(records.of(put, put, put), 0);
      while (failed.get() == 0 || deliveries.trouble() == null) {
        Thread.sleep(1);
      }
      assertTrue(thread.isAlive());
      assertTrue(deliveries.trouble().contains(error.getClass().getName()), deliveries.trouble());
      failure.set(null);
      put++;
      while (store.asked.stream().mapToInt(one -> one.batch.size()).sum() < put) {
        Thread.sleep(1);
      }
    }
    assertEquals(4, stats.deliveryFailures.sum());
    while (deliveries.trouble() != null) {
      Thread.sleep(1);
    }
    deliveries.stop();
    thread.join();
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(put, done.size());
  }

  /** Read wrong once: what was released is handed out again. */
  @Test
  void aRecordThatCouldNotBeReadIsReadAgain() throws Exception {
    for (int i = 0; i < 10; i++) {
      queue.put(records.of(1, i, i), 0);
    }
    file.readsLeft = 3;
    thread.start();
    while (deliveries.trouble() == null) {
      Thread.sleep(1);
    }
    file.readsLeft = -1;
    while (store.asked.stream().noneMatch(one -> !one.batch.isEmpty())) {
      Thread.sleep(1);
    }
    deliveries.stop();
    thread.join();
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(10, done.size());
    assertEquals(0, records.unreadable.sum());
  }

  /** A query must not have it turn round and round while nothing can be written. */
  @Test
  void itRestsWhileThereIsNoRoomForWhatIsUrgent() throws Exception {
    thread.start();
    // The store never answers, and all that may be under way soon is.
    int i = 0;
    do {
      for (int end = i + 5_000; i < end; i++) {
        queue.put(records.of(i, i, i), 0);
      }
      queue.flush("m1", ImmutableSetMultimap.of(), 0, deliveries::wakeUp);
      Thread.sleep(300);
    } while (!queue.isUrgent());
    int before = steps.get();
    Thread.sleep(500);
    assertTrue(steps.get() - before < 500, steps.get() - before + " turns in half a second");
    deliveries.stop();
    thread.join();
  }

  /** What is kept is given up for room only: a node that is away may lack it after the start. */
  @Test
  void anInterruptAtTheStopIsNotTakenForAFullDisk() throws Exception {
    disk =
        () -> {
          if (isStored()) {
            deliveries.stop();
            Thread.currentThread().interrupt();
            // As a channel's, on which this thread is when the executor ends.
            throw new ClosedByInterruptException();
          }
        };
    queue.put(records.of(1, 1, 1), 0);
    deliveries.run();
    assertEquals(1, queue.kept());
  }

  @Test
  void aFullDiskGivesUpWhatIsKept() throws Exception {
    List<Long> kept = new ArrayList<>();
    disk =
        () -> {
          if (isStored()) {
            kept.add(queue.kept());
            if (kept.size() == 1) {
              throw new IOException("no space");
            }
            deliveries.stop();
          }
        };
    queue.put(records.of(1, 1, 1), 0);
    deliveries.run();
    assertEquals(List.of(1L, 0L), kept);
  }

  /**
   * The oldest are among them, and hold the file: they do not wait until all else is stored, whether
   * a storage node came since or not.
   */
  @Test
  void whatWasGivenBackIsTriedBesideArrears() throws Exception {
    queue.put(records.of(1, 0, 0), 0);
    for (Group group : queue.take(1)) {
      queue.giveBack(new RowKey(group.series(), "fake", 0), new ArrayDeque<>(group.points()));
    }
    assertEquals(1, queue.depth().parked());
    for (int i = 1; i < 20_000; i++) {
      queue.put(records.of(i % 500, i, i), 0);
    }
    deliveries.step();
    assertEquals(0, queue.depth().parked());
    assertEquals(20_000, queue.depth().points());
  }

  /** No memory for a bit of the second, say: the first is on its way by then, and not twice. */
  @Test
  void whatWasGivenBackInPartBeforeAnErrorIsGivenBackOnce() throws Exception {
    queue.put(records.of(1, 0, 0), 0);
    queue.put(records.of(1, 1, 1), 0);
    List<Point> points = new ArrayList<>();
    queue.drain();
    queue.take(2).forEach(group -> points.addAll(group.points()));
    Deque<Point> left =
        new ArrayDeque<>(points) {
          private int looks;

          @Override
          public Point peek() {
            if (++looks == 2) {
              throw new OutOfMemoryError("no page");
            }
            return super.peek();
          }
        };
    RowKey rowKey = new RowKey(Records.series(1), "fake", 0);
    assertThrows(OutOfMemoryError.class, () -> queue.giveBack(rowKey, left));
    List<Group> again = queue.takeParked(10);
    assertEquals(1, again.size());
    assertEquals(List.of(points.get(0).index()), indexes(again.get(0)));
    queue.giveBack(rowKey, left);
    assertEquals(1, queue.depth().parked());
    queue.done(again.get(0).points());
    assertEquals(1, queue.depth().waiting());
    queue.rewrite();
    again = queue.takeParked(10);
    assertEquals(List.of(points.get(1).index()), indexes(again.get(0)));
    queue.done(again.get(0).points());
    assertEquals(0, queue.depth().waiting());
    assertEquals(0, queue.depth().parked());
  }

  private static List<Long> indexes(Group group) {
    return group.points().stream().map(Point::index).toList();
  }

  /** A record that was torn meanwhile, say, and a disk that takes no dead letter. */
  @Test
  void whatWasGivenBackAndCannotBeReadStopsNoOthers() throws Exception {
    queue.put(records.of(1, 0, 0), 0);
    for (Group group : queue.take(1)) {
      queue.giveBack(new RowKey(group.series(), "fake", 0), new ArrayDeque<>(group.points()));
    }
    queue.put(records.of(2, 1, 1), 0);
    queue.rewrite();
    file.readsLeft = 0;
    assertThrows(InternalError.class, deliveries::step);
    file.readsLeft = -1;
    deliveries.step();
    assertEquals(1, queue.depth().parked());
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    assertEquals(1, done.size());
  }

  private boolean isStored() {
    while (!store.asked.isEmpty()) {
      store.succeed(store.asked.get(0));
    }
    return !done.isEmpty();
  }

  /** Whatever ended it, somebody is told. */
  @Test
  void aThreadThatIsGoneIsToldOf() throws Exception {
    assertNull(deliveries.trouble(), "it has not begun");
    thread.start();
    while (queue.depth().waiting() > 0 || !thread.isAlive()) {
      Thread.sleep(1);
    }
    thread.interrupt();
    thread.join();
    assertFalse(thread.isAlive());
    assertTrue(deliveries.trouble().contains("hangs"), deliveries.trouble());
  }
}
