package io.kairoscope.kairosdb.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.exceptions.OperationTimedOutException;
import io.kairoscope.kairosdb.queue.Store.Table;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.junit.jupiter.api.Test;

/** A node that falls silent costs the others nothing, and no batch waits for it. */
class LanesTest {
  private static final int SLOTS = 2;

  private final Node a = new Node("a", null);
  private final Node b = new Node("b", null);
  private final Node c = new Node("c", null);
  private final FakeTimer timer = new FakeTimer();
  private final QueueStats stats = new QueueStats();
  private final Set<Node> frozen = new HashSet<>();
  private final List<Sent> sent = new ArrayList<>();
  private final List<Batch> written = new ArrayList<>();
  private final List<Batch> failed = new ArrayList<>();
  private final Lanes lanes =
      new Lanes(new Timer(timer, stats), timer::nowMs, SLOTS, 1_000, stats);

  private record Sent(Node node, Batch batch, CompletableFuture<Object> answer, long atMs) {}

  LanesTest() {
    lanes.outcome(new Told());
  }

  private final class Told implements Lanes.Outcome {
    @Override
    public void written(Batch batch, Object result) {
      assertFalse(written.contains(batch), "told twice");
      written.add(batch);
    }

    @Override
    public void failed(Batch batch, Node node, Throwable error) {
      failed.add(batch);
    }
  }

  private class One extends Batch {
    One(Node... nodes) {
      super(new Place(List.of(nodes), 0, 0));
    }

    @Override
    Place newPlace(Store store) {
      return place();
    }

    @Override
    Table table() {
      return Table.POINTS;
    }

    @Override
    LongAdder failures() {
      return stats.retries;
    }

    @Override
    CompletionStage<?> send(Node node) {
      CompletableFuture<Object> answer = new CompletableFuture<>();
      sent.add(new Sent(node, this, answer, timer.nowMs()));
      return answer;
    }

    @Override
    List<Batch> halves() {
      return List.of();
    }

    @Override
    List<Batch> parts() {
      return List.of(this);
    }

    @Override
    void giveBack() {}

    @Override
    void written(Object result) {}

    @Override
    void dead(String reason) {}
  }

  /** Those that are not frozen answer. */
  private void answer() {
    for (Sent one : List.copyOf(sent)) {
      if (!frozen.contains(one.node)) {
        sent.remove(one);
        one.answer.complete(0);
      }
    }
  }

  private void pass(long ms) {
    for (long i = 0; i < ms; i += 10) {
      timer.advance(10);
      answer();
    }
  }

  @Test
  void aSilentNodesBatchesAreWrittenByAnother() {
    frozen.add(a);
    for (int i = 0; i < 10; i++) {
      lanes.add(new One(a, b, c));
    }
    for (int i = 0; i < 150; i++) {
      lanes.add(new One(b, c, a));
      pass(10);
    }
    assertEquals(160, written.size());
    assertEquals(List.of("a"), lanes.silent());
    assertEquals(1, stats.silences.sum());
    assertEquals(SLOTS, stats.hedged.sum());
    // New ones go elsewhere at once.
    lanes.add(new One(a, b, c));
    answer();
    assertEquals(161, written.size());
  }

  /** With releases seconds apart nobody else has had anything to answer. */
  @Test
  void aSilentNodeIsNoticedWithoutOtherTraffic() {
    lanes.add(new One(b, c, a));
    pass(3_000);
    frozen.add(a);
    lanes.add(new One(a, b, c));
    lanes.add(new One(a, b, c));
    pass(2_000);
    assertEquals(3, written.size());
    assertEquals(List.of("a"), lanes.silent());
    // The one copy that tells, and the other batch.
    assertEquals(2, stats.hedged.sum());
    frozen.clear();
    pass(10);
    assertEquals(List.of(), lanes.silent());
  }

  /** As points whose time is over, read back after an outage: nothing is sent, and nobody answered. */
  @Test
  void whatIsNotSentIsNoAnswerOfANode() {
    class Over extends One {
      Over(Node... nodes) {
        super(nodes);
      }

      @Override
      CompletionStage<?> send(Node node) {
        return CompletableFuture.completedFuture(1);
      }

      @Override
      boolean wasSent(Object result) {
        return false;
      }
    }

    lanes.add(new One(b, c, a));
    pass(3_000);
    frozen.add(a);
    lanes.add(new One(a, b, c));
    for (int i = 0; i < 4; i++) {
      lanes.add(new Over(a, b, c));
      pass(500);
    }
    assertEquals(List.of("a"), lanes.silent());
    assertEquals(2 + 4, written.size(), "all are told");
  }

  @Test
  void aNodeThatWasNeverAskedTellsToo() {
    frozen.add(a);
    lanes.add(new One(a, b, c));
    pass(2_000);
    assertEquals(1, written.size());
    assertEquals(List.of("a"), lanes.silent());
  }

  @Test
  void aCopyThatIsNotAnsweredEitherIsTheOnlyOne() {
    frozen.addAll(Set.of(a, b, c));
    lanes.add(new One(a, b, c));
    lanes.add(new One(a, b, c));
    pass(20_000);
    assertEquals(3, sent.size());
    assertEquals(List.of(), lanes.silent());
    frozen.clear();
    pass(10);
    assertEquals(2, written.size());
    assertEquals(List.of(), failed);
  }

  /** It would do everything twice. */
  @Test
  void aStoreThatIsSlowWithLittleToDoIsAskedOnce() {
    int asked = 0;
    for (int ms = 0; ms < 60_000; ms += 10) {
      if (ms % 6_000 == 0) {
        lanes.add(ms % 12_000 == 0 ? new One(a, b, c) : new One(b, c, a));
      }
      timer.advance(10);
      for (Sent one : List.copyOf(sent)) {
        if (timer.nowMs() - one.atMs >= 2_000) {
          sent.remove(one);
          asked++;
          one.answer.complete(0);
        }
      }
    }
    assertEquals(10, written.size());
    assertEquals(0, stats.silences.sum());
    // What it took to learn how slow its nodes are.
    assertTrue(asked <= 12, asked + " for 10");
  }

  @Test
  void aLateAnswerCountsAndBringsTheNodeBack() {
    frozen.add(a);
    lanes.add(new One(a, b, c));
    frozen.add(c);
    for (int i = 0; i < 150; i++) {
      lanes.add(new One(b, c, a));
      pass(10);
    }
    assertEquals(151, written.size());
    frozen.clear();
    answer();
    assertEquals(List.of(), lanes.silent());
    assertEquals(151, written.size());
    lanes.add(new One(a, b, c));
    assertEquals(a, sent.get(0).node);
    answer();
    assertEquals(152, written.size());
  }

  @Test
  void aSilentNodeIsTriedNowAndThenWithoutAnyoneWaiting() {
    frozen.add(a);
    lanes.add(new One(a, b, c));
    for (int i = 0; i < 1_000; i++) {
      lanes.add(new One(b, c, a));
      pass(10);
      assertTrue(i < 150 || written.size() == i + 2, "nobody waits");
    }
    long probes = sent.stream().filter(one -> one.node == a).count();
    assertTrue(probes >= 3 && probes <= 5, probes + " in ten seconds, the first one included");
  }

  @Test
  void withAllSilentNothingIsSentTwice() {
    frozen.addAll(Set.of(a, b, c));
    for (int i = 0; i < 10; i++) {
      lanes.add(new One(a, b, c));
      lanes.add(new One(b, c, a));
      lanes.add(new One(c, a, b));
    }
    pass(20_000);
    assertEquals(3 * SLOTS, sent.size());
    assertEquals(List.of(), lanes.silent());
    frozen.clear();
    pass(100);
    assertEquals(30, written.size());
  }

  @Test
  void aStoreOfWhichAllNodesAreSlowIsAskedOnce() {
    int batches = 0;
    int asked = 0;
    // Out of step, so that at any time one has just answered and another owes for long.
    for (int ms = 0; ms < 60_000; ms += 10) {
      if (ms % 700 == 0) {
        Node[] nodes = {a, b, c};
        int turn = batches++ % 3;
        lanes.add(new One(nodes[turn], nodes[(turn + 1) % 3], nodes[(turn + 2) % 3]));
      }
      timer.advance(10);
      for (Sent one : List.copyOf(sent)) {
        if (timer.nowMs() - one.atMs >= 2_000) {
          sent.remove(one);
          asked++;
          one.answer.complete(0);
        }
      }
    }
    assertTrue(written.size() > batches - 5, written.size() + " of " + batches);
    // What it took to learn how slow it is.
    assertTrue(asked + sent.size() <= batches + 6, asked + " for " + batches);
  }

  @Test
  void aBatchThatOnlyASilentNodeHasIsNotSentThereAgainAndAgain() {
    frozen.add(a);
    lanes.add(new One(a));
    lanes.add(new One(a, b));
    for (int i = 0; i < 300; i++) {
      lanes.add(new One(b, c));
      pass(10);
    }
    long toA = sent.stream().filter(one -> one.node == a).count();
    assertTrue(toA <= 3, "" + toA);
    frozen.clear();
    pass(100);
    assertEquals(302, written.size());
  }

  @Test
  void aProcessThatStoodStillBlamesNobody() {
    frozen.addAll(Set.of(a, b, c));
    lanes.add(new One(a, b, c));
    lanes.add(new One(b, c, a));
    timer.advance(60_000);
    frozen.clear();
    frozen.add(a);
    answer();
    timer.advance(200);
    frozen.clear();
    answer();
    assertEquals(0, stats.silences.sum());
    assertEquals(2, written.size());
  }

  @Test
  void aFailureOfTheGivenUpAttemptDoesNotMatter() {
    frozen.add(a);
    One batch = new One(a, b, c);
    lanes.add(batch);
    Sent first = sent.get(0);
    frozen.add(c);
    for (int i = 0; i < 150 && written.size() < i + 2; i++) {
      lanes.add(new One(b, c, a));
      pass(10);
    }
    first.answer.completeExceptionally(new IllegalStateException("timed out at last"));
    assertEquals(List.of(), failed);
    assertTrue(written.contains(batch));
  }

  @Test
  void aBatchThatFailedElsewhereIsNotToldAgainByTheGivenUpAttempt() {
    frozen.addAll(Set.of(a, b));
    One batch = new One(a, b, c);
    lanes.add(batch);
    Sent first = sent.get(0);
    for (int i = 0; i < 150; i++) {
      lanes.add(new One(c, b, a));
      pass(10);
    }
    Sent second =
        sent.stream().filter(one -> one.batch == batch && one != first).findFirst().orElseThrow();
    second.answer.completeExceptionally(new IllegalStateException("no"));
    first.answer.completeExceptionally(new IllegalStateException("timed out at last"));
    assertEquals(List.of(batch), failed, "it would be tried twice from now on");
  }

  @Test
  void slotsAreGivenBackWhateverIsAnswered() {
    for (int i = 0; i < 100; i++) {
      lanes.add(new One(a));
    }
    for (int i = 0; i < 100; i++) {
      assertTrue(sent.size() <= SLOTS);
      Sent one = sent.remove(0);
      if (i % 3 == 0) {
        one.answer.completeExceptionally(new NoSuchMethodError("oh"));
      } else {
        one.answer.complete(0);
      }
    }
    assertEquals(34, failed.size());
    assertEquals(66, written.size());
  }

  @Test
  void noThreadSendsForEver() {
    int all = 20_000;
    List<Batch> sent = new ArrayList<>();
    Lanes lanes = new Lanes(new Timer(timer, stats), timer::nowMs, SLOTS, 1_000, stats);
    class Next extends One {
      Next() {
        super(a);
      }

      @Override
      CompletionStage<?> send(Node node) {
        sent.add(this);
        // As if another thread had one more.
        if (sent.size() < all) {
          lanes.add(new Next());
        }
        return CompletableFuture.completedFuture(0);
      }
    }
    lanes.outcome(new Told());
    lanes.add(new Next());
    assertTrue(sent.size() <= 1_000, "" + sent.size());
    timer.advance(10);
    assertEquals(all, sent.size());
    assertEquals(all, written.size());
  }

  /** One after the other, whether anybody still waits for it or not. */
  private final class Slow {
    static final long TAKES_MS = 300;
    static final long TIMEOUT_MS = 2_000;
    static final int SLOTS = 16;

    private final Lanes lanes = new Lanes(new Timer(timer, stats), timer::nowMs, SLOTS, 60_000, stats);
    private final Deque<CompletableFuture<Object>> doing = new ArrayDeque<>();
    private final List<Batch> written = new ArrayList<>();
    private int failures;
    private long freeMs;
    private int most;

    Slow() {
      lanes.outcome(
          new Lanes.Outcome() {
            @Override
            public void written(Batch batch, Object result) {
              written.add(batch);
            }

            @Override
            public void failed(Batch batch, Node node, Throwable error) {
              batch.failed++;
              failures++;
              timer.schedule(() -> lanes.add(batch), 100, TimeUnit.MILLISECONDS);
            }
          });
    }

    void add(int batches) {
      for (int i = 0; i < batches; i++) {
        lanes.add(
            new One(a) {
              @Override
              CompletionStage<?> send(Node node) {
                CompletableFuture<Object> answer = new CompletableFuture<>();
                doing.add(answer);
                long waiting = doing.stream().filter(one -> !one.isDone()).count();
                most = Math.max(most, (int) waiting);
                timer.schedule(
                    (Runnable)
                        () -> answer.completeExceptionally(new OperationTimedOutException(null)),
                    TIMEOUT_MS,
                    TimeUnit.MILLISECONDS);
                return answer;
              }
            });
      }
    }

    void pass(long ms) {
      for (long i = 0; i < ms; i += 10) {
        timer.advance(10);
        if (!doing.isEmpty() && timer.nowMs() >= freeMs) {
          freeMs = timer.nowMs() + TAKES_MS;
          doing.poll().complete(0);
        }
      }
    }
  }

  @Test
  void aStoreThatAnswersTooLateIsNotBuried() {
    Slow store = new Slow();
    store.add(200);
    // What 200 take it, and 130 more that nobody waits for any more.
    store.pass(100_000);
    assertEquals(200, store.written.size(), "of " + store.failures + " failures");
    assertTrue(store.failures < 100, "failures: " + store.failures);
    assertTrue(stats.lates.sum() > 0, store.failures + " failures, " + store.most + " at once");
  }

  @Test
  void whatWasLateOnceIsAskedForAllOfItAgain() {
    Slow store = new Slow();
    store.add(60);
    store.pass(60_000);
    assertEquals(60, store.written.size());
    for (int i = 0; i < 400; i++) {
      store.add(1);
      timer.advance(10);
      store.doing.poll().complete(0);
    }
    store.most = 0;
    store.add(2 * Slow.SLOTS);
    assertEquals(Slow.SLOTS, store.most);
  }
}
