package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.common.collect.ImmutableSortedMap;
import java.io.IOException;
import org.junit.jupiter.api.Test;

class CoalescingQueueForgetTest {
  private final Records records = new Records();

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
