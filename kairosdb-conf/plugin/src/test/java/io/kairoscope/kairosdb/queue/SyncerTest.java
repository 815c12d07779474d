package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Whoever waits for the disk waits until the disk has it, and all at a time. */
@Timeout(60)
class SyncerTest {
  private final AtomicLong head = new AtomicLong();
  private final AtomicInteger forced = new AtomicInteger();
  // The disk takes as long as the test wants.
  private final SynchronousQueue<Throwable> answers = new SynchronousQueue<>();
  private static final Throwable GOOD = new Throwable();
  private final Syncer syncer = new Syncer(this::force, head::get, 1);
  private final Thread thread = new Thread(syncer);

  private long force() throws IOException {
    long upTo = head.get();
    forced.incrementAndGet();
    try {
      Throwable answer = answers.take();
      if (answer instanceof Error error) {
        throw error;
      }
      if (answer instanceof IOException error) {
        throw error;
      }
    } catch (InterruptedException stop) {
      throw new IOException(stop);
    }
    return upTo;
  }

  @AfterEach
  void end() {
    syncer.stop();
    thread.interrupt();
  }

  private CompletableFuture<Void> waiting() {
    return CompletableFuture.runAsync(
        () -> {
          try {
            syncer.sync();
          } catch (InterruptedException stop) {
            throw new IllegalStateException(stop);
          }
        },
        work -> new Thread(work).start());
  }

  private void awaitForced(int times) throws InterruptedException {
    while (forced.get() < times) {
      Thread.sleep(1);
    }
  }

  @Test
  void nobodyGoesOnBeforeTheDiskHasIt() throws Exception {
    thread.start();
    syncer.sync();
    assertEquals(0, forced.get(), "nothing was appended");
    head.set(5);
    CompletableFuture<Void> first = waiting();
    awaitForced(1);
    // These come while the disk is at work: the next time is for all of them.
    head.set(9);
    List<CompletableFuture<Void>> later = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      later.add(waiting());
    }
    assertFalse(first.isDone());
    answers.put(GOOD);
    first.get();
    awaitForced(2);
    assertTrue(later.stream().noneMatch(CompletableFuture::isDone));
    answers.put(GOOD);
    for (CompletableFuture<Void> one : later) {
      one.get();
    }
    assertEquals(2, forced.get());
    assertNull(syncer.trouble());
  }

  @Test
  void whatNobodyWaitsForComesToTheDiskToo() throws Exception {
    thread.start();
    head.set(3);
    assertEquals(3, syncer.want());
    answers.put(GOOD);
    syncer.sync();
    assertEquals(1, forced.get(), "it was there");
  }

  /** Telnet wants something at each line, and requests wait for the disk all the time. */
  @Test
  void whoWaitsIsNotWokenByWhatOthersWant() throws Exception {
    thread.start();
    head.set(1);
    long[] waits = new long[1];
    Thread waiting =
        new Thread(
            () -> {
              ThreadMXBean threads = ManagementFactory.getThreadMXBean();
              long before = threads.getThreadInfo(Thread.currentThread().getId()).getWaitedCount();
              assertDoesNotThrow(syncer::sync);
              waits[0] =
                  threads.getThreadInfo(Thread.currentThread().getId()).getWaitedCount() - before;
            });
    waiting.start();
    awaitForced(1);
    while (waiting.getState() != Thread.State.TIMED_WAITING) {
      Thread.sleep(1);
    }
    for (int i = 2; i < 100; i++) {
      head.set(i);
      syncer.want();
    }
    answers.put(GOOD);
    waiting.join();
    assertEquals(1, waits[0]);
    // What they want comes next all the same.
    answers.put(GOOD);
    syncer.sync();
    assertEquals(2, forced.get());
  }

  @Test
  void afterAFailureNothingIsPromisedAnyMore() throws Exception {
    for (Throwable failure :
        new Throwable[] {new IOException("no disk"), new InternalError("a page")}) {
      Syncer one = new Syncer(this::force, head::get, 1);
      Thread running = new Thread(one);
      running.start();
      head.incrementAndGet();
      CompletableFuture<Void> asked =
          CompletableFuture.runAsync(
              () -> assertThrows(NotTakenError.class, one::sync),
              work -> new Thread(work).start());
      answers.put(failure);
      asked.get();
      head.incrementAndGet();
      assertThrows(NotTakenError.class, one::sync);
      assertTrue(one.trouble().contains(failure.getMessage()), one.trouble());
      running.join();
    }
  }

  /** Else all threads of the web server wait for it, and health is well. */
  @Test
  void nobodyWaitsForADiskThatHangs() throws Exception {
    Syncer one = new Syncer(this::force, head::get, 1, 200);
    Thread running = new Thread(one);
    running.start();
    head.set(1);
    assertThrows(NotTakenError.class, one::sync);
    String trouble = one.trouble();
    assertTrue(trouble.contains("has not answered"), trouble);
    // The next ones are told at once.
    head.set(2);
    NotTakenError told = assertThrows(NotTakenError.class, one::sync);
    assertTrue(told.getMessage().contains("has not answered"), told.getMessage());
    assertEquals(1, forced.get());
    // It may come back: what it was asked for is there.
    answers.put(GOOD);
    awaitForced(2);
    answers.put(GOOD);
    while (one.trouble() != null) {
      Thread.sleep(1);
    }
    one.sync();
    // To wait for nothing is no trouble.
    Thread.sleep(300);
    assertNull(one.trouble());
    one.stop();
    running.join();
  }

  @Test
  void anEndLetsNobodyWait() throws Exception {
    head.set(1);
    CompletableFuture<Void> asked = waiting();
    syncer.stop();
    ExecutionException refused = assertThrows(ExecutionException.class, asked::get);
    assertTrue(refused.getCause() instanceof NotTakenError, refused.toString());
  }
}
