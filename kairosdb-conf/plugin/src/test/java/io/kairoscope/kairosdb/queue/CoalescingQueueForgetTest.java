package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class CoalescingQueueForgetTest {
  private final Records records = new Records();

  /** The file has it for a while yet, and it would come back without anybody to delete it again. */
  @Test
  void whatWasGivenUpIsNotWrittenAgain() throws IOException {
    MemoryFile file = new MemoryFile();
    CoalescingQueue queue =
        new CoalescingQueue(file, records.codec, 10_000, 1 << 20, 60_000, () -> 0);
    for (int i = 0; i < 10; i++) {
      queue.put(records.of("m", ImmutableSortedMap.of("s", "" + i), i, i, 0), 0);
    }
    assertEquals(
        5, queue.forget("m", (loaded, tagsAt) -> loaded.bytes()[loaded.length() - 1] < '5'));
    queue.take(100).forEach(group -> queue.done(group.points()));
    queue.put(records.of("m", ImmutableSortedMap.of("s", "0"), 11, 11, 0), 0);
    queue.drain();
    queue.take(100).forEach(group -> queue.done(group.points()));
    assertEquals(0, queue.depth().waiting());
    queue.rewrite();
    List<Long> again = new ArrayList<>();
    queue.takeAgain(100).forEach(group -> group.points().forEach(one -> again.add(one.time())));
    again.sort(null);
    assertEquals(List.of(5L, 6L, 7L, 8L, 9L, 11L), again);
  }

  @Test
  void whatIsInTheFileOnlyIsGivenUpWhenItIsReadBack() throws IOException {
    MemoryFile file = new MemoryFile();
    int four = 4 * CoalescingQueue.POINT_BYTES;
    CoalescingQueue queue = new CoalescingQueue(file, records.codec, 0, four, 0, () -> 0);
    for (int i = 0; i < 10; i++) {
      queue.put(records.of("m", ImmutableSortedMap.of("s", "" + i % 2), i, i, 0), 0);
    }
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
    MemoryFile file = new MemoryFile();
    CoalescingQueue queue =
        new CoalescingQueue(file, records.codec, 10_000, 1 << 20, 0, () -> 0);
    for (int i = 0; i < 10; i++) {
      queue.put(records.of("m", ImmutableSortedMap.of("s", "" + i), i, i, 0), 0);
    }
    file.readsLeft = 4;
    assertThrows(InternalError.class, () -> queue.forget("m", (loaded, tagsAt) -> true));
    file.readsLeft = -1;
    assertEquals(6, queue.depth().waiting());
    assertEquals(6, queue.take(100).size());
  }
}
