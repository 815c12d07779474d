package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.Lane.Attempt;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends batches: so many at a time to each node, and the next when one is answered. Nobody waits
 * here, and no node for another.
 *
 * <p>A node that owes an answer for some time, while others give theirs much sooner, is taken for
 * silent: frozen, or behind a network that is gone. What is under way to it is sent again by another
 * node, which is the same write, and the first answer is taken. Until it answers anything it gets
 * nothing but a copy of a batch now and then. A store of which all nodes are slow is not asked twice:
 * that would have it do everything twice, and answer later still. Where nobody else has anything to
 * answer, another node is sent a copy of one batch, to tell the two apart. One that answers later
 * than is waited for is asked for less at a time, until it does not: attempts that are made again
 * and again would bury it.
 */
final class Lanes {
  /** What became of a batch; called without a lock, and never twice for one attempt. */
  interface Outcome {
    void written(Batch batch, Object result);

    void failed(Batch batch, Node node, Throwable error);
  }

  private static final Logger logger = LoggerFactory.getLogger(Lanes.class);
  // How often a silent node is asked, by a batch that is on its way elsewhere, too.
  private static final long PROBE_MS = 3_000;
  private static final long AGAIN_MS = 1_000;
  private static final int TICKS = 4;
  // Sent by one thread before another goes on.
  private static final int AT_A_TIME = 1_000;
  // So many times as long as the others' answers take, a node may take for its own.
  private static final double SLOWER = 4;
  private static final Node ANY = new Node("any node", null);

  private final Timer timer;
  private final LongSupplier elapsedMs;
  private final int inFlightPerHost;
  private final long silentMs;
  private final QueueStats stats;
  private final Map<Node, Lane> lanes = new IdentityHashMap<>();
  private final Deque<Attempt> probes = new ArrayDeque<>();
  private final AtomicInteger rounds = new AtomicInteger();
  private Outcome outcome;
  private boolean ticking;
  private long tickDueMs;

  /**
   * @param elapsedMs a clock that is never set
   * @param silentMs from when on a node is silent
   */
  Lanes(Timer timer, LongSupplier elapsedMs, int inFlightPerHost, long silentMs, QueueStats stats) {
    this.timer = timer;
    this.elapsedMs = elapsedMs;
    this.inFlightPerHost = inFlightPerHost;
    this.silentMs = silentMs;
    this.stats = stats;
  }

  /** To be told once, before the first batch. */
  void outcome(Outcome to) {
    outcome = to;
  }

  /** Sends a batch when there is room for it. Returns at once. */
  void add(Batch batch) {
    synchronized (this) {
      batch.open++;
      lane(choose(batch.place(), batch.failed)).waiting.addLast(batch);
    }
    pump();
  }

  /** The node for a first attempt at a partition. */
  synchronized Node choose(Place place) {
    return choose(place, 0);
  }

  /** Each attempt that fails is followed by one at the next of the nodes. */
  private Node choose(Place place, int failed) {
    List<Node> nodes = place.nodes();
    int good = 0;
    for (int i = 0; i < nodes.size(); i++) {
      good += good(nodes.get(i)) ? 1 : 0;
    }
    if (good > 0) {
      int turn = failed % good;
      for (int i = 0; i < nodes.size(); i++) {
        if (good(nodes.get(i)) && turn-- == 0) {
          return nodes.get(i);
        }
      }
    }
    return nodes.isEmpty() ? ANY : nodes.get(failed % nodes.size());
  }

  private boolean good(Node node) {
    Lane lane = lanes.get(node);
    return (lane == null || !lane.silent) && node.up();
  }

  private Lane lane(Node node) {
    return lanes.computeIfAbsent(node, one -> new Lane(one, inFlightPerHost));
  }

  /**
   * Sends all that may be sent. A store that answers at once, or in another thread, would have this
   * called while it runs: then it goes round once more, so that no call is within another. Not for
   * ever, or a thread of the driver would read no answers for as long as others bring some, and
   * that of the deliveries release nothing.
   */
  private void pump() {
    if (rounds.getAndIncrement() != 0) {
      return;
    }
    int seen = 1;
    int left = AT_A_TIME;
    do {
      try {
        for (Attempt attempt = next(); attempt != null; attempt = left > 0 ? next() : null) {
          send(attempt);
          left--;
        }
      } catch (Throwable error) {
        stats.errors.increment();
        logger.error("A round of batches was not sent to its end", error);
      }
      if (left <= 0) {
        // While this is still the only one that sends; also what others asked for meanwhile.
        rounds.set(0);
        timer.after(0, this::pump);
        return;
      }
      seen = rounds.addAndGet(-seen);
    } while (seen != 0);
  }

  private synchronized Attempt next() {
    if (!probes.isEmpty()) {
      return probes.poll();
    }
    for (Lane lane : lanes.values()) {
      while (!lane.waiting.isEmpty() && lane.hasRoom()) {
        Batch batch = lane.waiting.peek();
        if (batch.closed) {
          lane.waiting.remove();
          batch.open--;
          continue;
        }
        Attempt attempt = new Attempt(batch, lane, elapsedMs.getAsLong());
        if (lane.underWay.isEmpty()) {
          lane.owesSinceMs = attempt.sentMs;
        }
        lane.underWay.add(attempt);
        lane.waiting.remove();
        probe(attempt);
        tickLater();
        return attempt;
      }
    }
    return null;
  }

  private void probe(Attempt attempt) {
    if (attempt.lane.silent) {
      return;
    }
    long now = elapsedMs.getAsLong();
    for (Lane lane : lanes.values()) {
      if (lane.silent && lane.node.up() && now - lane.probedMs >= PROBE_MS) {
        lane.probedMs = now;
        probes.add(new Attempt(attempt.batch, lane, now));
      }
    }
  }

  private void send(Attempt attempt) {
    try {
      attempt
          .batch
          .send(attempt.lane.node)
          .whenComplete((result, error) -> answered(attempt, result, error));
    } catch (Throwable error) {
      answered(attempt, null, error);
    }
  }

  private void answered(Attempt attempt, Object result, Throwable thrown) {
    Throwable error = thrown == null ? null : Refusal.cause(thrown);
    boolean mine;
    synchronized (this) {
      mine = account(attempt, result, error);
    }
    if (mine) {
      tell(attempt, result, error);
    }
    pump();
  }

  private void tell(Attempt attempt, Object result, Throwable error) {
    try {
      if (error == null) {
        outcome.written(attempt.batch, result);
      } else {
        outcome.failed(attempt.batch, attempt.lane.node, error);
      }
    } catch (Throwable unexpected) {
      stats.errors.increment();
      logger.error("The answer to a batch could not be handled; again later", unexpected);
      timer.after(AGAIN_MS, () -> tell(attempt, result, error));
    }
  }

  /** Whether this answer says what became of the batch. */
  private boolean account(Attempt attempt, Object result, Throwable error) {
    Lane lane = attempt.lane;
    Batch batch = attempt.batch;
    // Not if it was given up: then another attempt is waited for.
    boolean waitedFor = lane.underWay.remove(attempt);
    // Points whose time is over are not sent, and tell nothing of a node.
    boolean asked = error != null || batch.wasSent(result);
    if (asked && Refusal.answered(error)) {
      lane.answered(attempt, elapsedMs.getAsLong(), SLOWER * silentMs);
      if (lane.silent) {
        lane.silent = false;
        logger.info("{} answers again", lane.node);
      }
    }
    if (error == null && asked) {
      lane.inTime();
    } else if (Refusal.late(error) && lane.late(attempt, elapsedMs.getAsLong())) {
      stats.lates.increment();
      logger.info("{} answers later than is waited for, and is asked for less at a time", lane.node);
    }
    if (waitedFor) {
      batch.open--;
    }
    if (batch.closed) {
      return false;
    }
    if (error == null) {
      batch.closed = true;
      return true;
    }
    return waitedFor && batch.open == 0;
  }

  /** Takes a batch back that failed and is not to be tried any more; false if it was written. */
  synchronized boolean close(Batch batch) {
    if (batch.closed) {
      return false;
    }
    batch.closed = true;
    return true;
  }

  synchronized boolean closed(Batch batch) {
    return batch.closed;
  }

  private void tickLater() {
    if (!ticking) {
      ticking = true;
      tickDueMs = elapsedMs.getAsLong() + silentMs / TICKS;
      timer.after(silentMs / TICKS, this::tick);
    }
  }

  /** Looks for nodes that have fallen silent, for as long as anything is under way. */
  private void tick() {
    synchronized (this) {
      ticking = false;
      long now = elapsedMs.getAsLong();
      // While this process itself stood still, nobody could answer it.
      long late = now - tickDueMs;
      boolean busy = false;
      for (Lane lane : List.copyOf(lanes.values())) {
        if (late > silentMs / TICKS) {
          lane.owesSinceMs += late;
        }
        if (!lane.underWay.isEmpty() && now - lane.owesSinceMs >= silentMs) {
          owes(lane, now);
        }
        busy |= !lane.underWay.isEmpty() || !lane.waiting.isEmpty();
      }
      if (busy) {
        tickLater();
      }
    }
    pump();
  }

  private void owes(Lane lane, long now) {
    double withinMs = (now - lane.owesSinceMs) / SLOWER;
    if (othersAnswer(lane, now - silentMs, withinMs)) {
      silent(lane, now);
    } else if (lane.comparedMs != lane.owesSinceMs && othersOweNothing(lane)) {
      compare(lane, now, withinMs);
    }
  }

  private boolean othersOweNothing(Lane than) {
    for (Lane lane : lanes.values()) {
      if (lane != than && !lane.silent && !lane.underWay.isEmpty()) {
        return false;
      }
    }
    return true;
  }

  /** Sends a copy of one batch to a node that took no longer lately, or was never asked. */
  private void compare(Lane owes, long now, double withinMs) {
    for (Attempt attempt : owes.underWay) {
      for (Node node : attempt.batch.closed ? List.<Node>of() : attempt.batch.place().nodes()) {
        Lane lane = lane(node);
        if (lane != owes && good(node) && lane.answerTakesMs() <= withinMs) {
          owes.comparedMs = owes.owesSinceMs;
          stats.hedged.increment();
          probes.add(new Attempt(attempt.batch, lane, now));
          return;
        }
      }
    }
  }

  /** Whether another node answered since then, and whoever did took no longer than so long. */
  private boolean othersAnswer(Lane than, long sinceMs, double withinMs) {
    boolean any = false;
    for (Lane lane : lanes.values()) {
      if (lane != than && lane.answeredEver && lane.answeredMs >= sinceMs) {
        if (lane.answerTakesMs() > withinMs) {
          return false;
        }
        any = true;
      }
    }
    return any;
  }

  private void silent(Lane lane, long now) {
    if (!lane.silent) {
      lane.silent = true;
      lane.probedMs = now;
      stats.silences.increment();
      logger.warn(
          "{} has not answered for {} ms: its {} batches are sent by other nodes",
          lane.node,
          now - lane.owesSinceMs,
          lane.underWay.size() + lane.waiting.size());
    }
    List<Batch> batches = new ArrayList<>();
    for (Attempt attempt : List.copyOf(lane.underWay)) {
      Batch batch = attempt.batch;
      if (batch.closed) {
        lane.underWay.remove(attempt);
        batch.open--;
      } else if (choose(batch.place(), batch.failed) != lane.node) {
        lane.underWay.remove(attempt);
        stats.hedged.increment();
        batches.add(batch);
      }
    }
    for (Iterator<Batch> waiting = lane.waiting.iterator(); waiting.hasNext(); ) {
      Batch batch = waiting.next();
      if (choose(batch.place(), batch.failed) != lane.node) {
        waiting.remove();
        batches.add(batch);
      }
    }
    // In front of what waits there, since these have waited.
    for (int i = batches.size() - 1; i >= 0; i--) {
      Batch batch = batches.get(i);
      lane(choose(batch.place(), batch.failed)).waiting.addFirst(batch);
    }
  }

  /** Nodes that are silent, for people; empty is good. */
  synchronized List<String> silent() {
    List<String> names = new ArrayList<>();
    for (Lane lane : lanes.values()) {
      // One that the driver takes for down is known to be.
      if (lane.silent && lane.node.up()) {
        names.add(lane.node.name);
      }
    }
    return names;
  }
}
