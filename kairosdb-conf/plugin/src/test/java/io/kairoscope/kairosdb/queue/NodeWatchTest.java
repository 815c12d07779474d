package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class NodeWatchTest {
  @Test
  void whatWasStoredLatelyIsWrittenAgainWhenANodeGoesAndWhenItIsBack() {
    AtomicInteger rewritten = new AtomicInteger();
    NodeWatch watch = new NodeWatch(rewritten::incrementAndGet);
    watch.onDown(null);
    assertEquals(1, rewritten.get());
    watch.onUp(null);
    assertEquals(2, rewritten.get());
    // One that is new has nothing to lack.
    watch.onAdd(null);
    watch.onRemove(null);
    assertEquals(2, rewritten.get());
  }
}
