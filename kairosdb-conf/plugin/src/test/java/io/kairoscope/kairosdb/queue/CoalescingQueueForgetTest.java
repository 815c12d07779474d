package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSetMultimap;
import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class CoalescingQueueForgetTest {
  private final Records records = new Records();
  private final MemoryFile file = new MemoryFile();

  private void put(CoalescingQueue queue, int series, long time) throws IOException {
    queue.put(records.of("m", ImmutableSortedMap.of("s", "" + series), time, time, 0), 0);
  }

  /** With ten points of so many series. */
  private CoalescingQueue queue(int series, long windowMs, long maxBytes, long keepMs)
      throws IOException {
    CoalescingQueue queue =
        new CoalescingQueue(file, records.codec, windowMs, maxBytes, keepMs, () -> 0);
    for (int i = 0; i < 10; i++) {
      put(queue, i % series, i);
    }
    return queue;
  }

  /** The file has it for a while yet, and it would come back without anybody to delete it again. */
  @Test
  void whatWasGivenUpIsNotWrittenAgain() throws IOException {
    CoalescingQueue queue = queue(10, 10_000, 1 << 20, 60_000);
    assertEquals(
        5, queue.forget("m", (loaded, tagsAt) -> loaded.bytes()[loaded.length() - 1] < '5'));
    queue.take(100).forEach(group -> queue.done(group.points()));
    put(queue, 0, 11);
    queue.drain();
    queue.take(100).forEach(group -> queue.done(group.points()));
    assertEquals(0, queue.depth().waiting());
    queue.checkpoint();
    queue.rewrite();
    List<Long> again = new ArrayList<>();
    queue.takeAgain(100).forEach(group -> group.points().forEach(one -> again.add(one.time())));
    again.sort(null);
    assertEquals(List.of(5L, 6L, 7L, 8L, 9L, 11L), again);
  }

  @Test
  void whatIsInTheFileOnlyIsGivenUpWhenItIsReadBack() throws IOException {
    CoalescingQueue queue = queue(2, 0, 4 * CoalescingQueue.POINT_BYTES, 0);
    assertTrue(queue.depth().fileOnly() > 0);
    queue.forget("m", (loaded, tagsAt) -> loaded.bytes()[loaded.length() - 1] == '0');
    List<Long> stored = new ArrayList<>();
    while (queue.depth().waiting() > 0) {
      queue.refill();
      for (Group group : queue.take(100)) {
        group.points().forEach(point -> stored.add(point.time()));
        queue.done(group.points());
      }
    }
    stored.sort(null);
    assertEquals(List.of(1L, 3L, 5L, 7L, 9L), stored);
  }

  /** They are in no list while they are looked at: an error must not leave them there. */
  @Test
  void whatCouldNotBeLookedAtIsReleased() throws IOException {
    CoalescingQueue queue = queue(10, 10_000, 1 << 20, 0);
    file.readsLeft = 4;
    assertThrows(InternalError.class, () -> queue.forget("m", (loaded, tagsAt) -> true));
    file.readsLeft = -1;
    assertEquals(6, queue.depth().waiting());
    assertEquals(6, queue.take(100).size());
  }

  /** They are in no list while they are looked at, and a query must not take them for stored. */
  @Test
  void whatIsBeingLookedAtIsNotTakenForStored() throws Exception {
    CoalescingQueue queue = queue(10, 10_000, 1 << 20, 0);
    CountDownLatch looking = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    FutureTask<Integer> forget =
        new FutureTask<>(
            () ->
                queue.forget(
                    "m",
                    (loaded, tagsAt) -> {
                      looking.countDown();
                      return await(go);
                    }));
    new Thread(forget).start();
    assertTrue(await(looking));
    try {
      assertFalse(queue.flush("m", ImmutableSetMultimap.of(), 0, () -> {}));
      assertFalse(queue.flush("m", ImmutableSetMultimap.of("s", "7"), 0, () -> {}));
    } finally {
      go.countDown();
    }
    assertEquals(10, forget.get());
    assertTrue(queue.flush("m", ImmutableSetMultimap.of(), 0, () -> {}));
  }

  private static boolean await(CountDownLatch latch) throws IOException {
    try {
      return latch.await(30, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      throw new IOException(interrupted);
    }
  }

  /** Each has its tags with it, and is compared with all that is read back. */
  @Test
  void whatWasGivenUpIsForgottenWithItsRecords() throws IOException {
    assertFewDeletesAreKnown(queue(1, 10_000, 1 << 20, 0));
  }

  /** Of a thousand, each of which came while points did, and those were stored since. */
  private void assertFewDeletesAreKnown(CoalescingQueue queue) throws IOException {
    List<WeakReference<Object>> tags = new ArrayList<>();
    for (int i = 0; i < 1_000; i++) {
      put(queue, 1, i);
      forget(queue, tags);
      queue.take(100).forEach(group -> queue.done(group.points()));
      queue.checkpoint();
    }
    System.gc();
    long left = tags.stream().filter(one -> one.get() != null).count();
    assertTrue(left <= 1, left + " deletes are known");
  }

  /** Of other nodes: hundreds of deletes may be known while points are parked for hours. */
  @Test
  void whatIsReadBackIsHashedOnceHoweverManyDeletesAreKnown() throws IOException {
    queue(2, 0, 1 << 20, 0);
    Set<Integer> looks = new HashSet<>();
    for (int deletes : List.of(0, 1, 100)) {
      CoalescingQueue restarted =
          new CoalescingQueue(file, records.codec, 0, 1 << 20, 60_000, () -> 0);
      for (int i = 0; i < deletes; i++) {
        restarted.forget("other", (loaded, tagsAt) -> true);
      }
      file.looks = 0;
      assertEquals(10, restarted.refill());
      restarted.take(100).forEach(group -> restarted.done(group.points()));
      restarted.rewrite();
      assertEquals(2, restarted.takeAgain(100).size());
      looks.add(file.looks);
    }
    assertEquals(1, looks.size(), looks.toString());
  }

  /** A point that is parked for hours holds the file, but only its own metric's deletes. */
  @Test
  void whatWasGivenUpOfOtherMetricsThanWaitIsForgotten() throws IOException {
    CoalescingQueue queue =
        new CoalescingQueue(file, records.codec, 10_000, 1 << 20, 0, () -> 0);
    queue.put(records.of("parked", ImmutableSortedMap.of("s", "1"), 1, 1, 0), 0);
    queue.drain();
    for (Group group : queue.take(100)) {
      queue.giveBack(new RowKey(group.series(), "fake", 0), new ArrayDeque<>(group.points()));
    }
    queue.forget("parked", (loaded, tagsAt) -> true);
    assertFewDeletesAreKnown(queue);
    assertEquals(1, queue.depth().parked());
    assertEquals(List.of(), queue.takeParked(100), "its own is known");
    assertEquals(0, queue.depth().waiting());
  }

  private static void forget(CoalescingQueue queue, List<WeakReference<Object>> tags)
      throws IOException {
    Object one = new Object();
    tags.add(new WeakReference<>(one));
    queue.forget("m", (loaded, tagsAt) -> one != null);
  }
}
