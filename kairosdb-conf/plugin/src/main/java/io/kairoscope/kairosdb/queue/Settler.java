package io.kairoscope.kairosdb.queue;

import io.kairoscope.kairosdb.queue.DeadLetters.Letter;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.SortedMap;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The end of a point's way: it is stored, or its time is over, or it is a dead letter. Then the
 * queue is told, once it takes that, and there is room for others.
 */
final class Settler {
  private static final Logger logger = LoggerFactory.getLogger(Settler.class);
  private static final int BURIED_AT_ONCE = 1_000;

  private final Queue queue;
  private final DeadLetters deadLetters;
  private final Room room;
  private final Timer timer;
  private final Backoff backoff;
  private final QueueStats stats;
  private final LongSupplier nowMs;
  private final List<Dead> dead = new ArrayList<>();
  private boolean burying;
  private int failed;
  private volatile String trouble;

  /** Whose points they are. By any thread. */
  interface Queue {
    /** These are stored, or need not be. */
    void done(Collection<Point> points);

    /**
     * These, of one row, the store does not take while it takes others.
     *
     * @param left each is taken out once it is given back: after an Error it is called again with
     *     the others, as what is back may be on its way already
     */
    void giveBack(RowKey rowKey, Deque<Point> left) throws IOException;
  }

  private interface Message {
    void tell() throws IOException;
  }

  private record Dead(Letter letter, RowKey rowKey) {}

  Settler(
      Queue queue,
      DeadLetters deadLetters,
      Room room,
      Timer timer,
      Backoff backoff,
      QueueStats stats,
      LongSupplier nowMs) {
    this.queue = queue;
    this.deadLetters = deadLetters;
    this.room = room;
    this.timer = timer;
    this.backoff = backoff;
    this.stats = stats;
    this.nowMs = nowMs;
  }

  /** Points that the store has, or that are over. */
  void settle(RowKey rowKey, List<Point> points) {
    if (rowKey != null) {
      rowKey.touch(-points.size(), nowMs.getAsLong());
    }
    tell(() -> queue.done(points), points, 0);
  }

  /** Points that the store does not take while it takes others: the queue brings them again. */
  void giveBack(RowKey rowKey, List<Point> points) {
    rowKey.touch(-points.size(), nowMs.getAsLong());
    stats.givenBack.add(points.size());
    Deque<Point> left = new ArrayDeque<>(points);
    tell(() -> queue.giveBack(rowKey, left), points, 0);
  }

  private void tell(Message what, List<Point> points, int attempts) {
    try {
      what.tell();
    } catch (Throwable error) {
      stats.errors.increment();
      logger.error("The queue could not be told what became of points; again later", error);
      timer.after(backoff.delayMs(attempts + 1), () -> tell(what, points, attempts + 1));
      return;
    }
    room.give(Room.bytes(points));
  }

  /** Points that the store will never take. They are settled when they are in the file. */
  void bury(Series series, List<Point> points, String reason) {
    bury(null, series.metric(), series.tags(), series.type(), points, reason);
  }

  /** Points of a row that the store will never take. */
  void bury(RowKey rowKey, List<Point> points, String reason) {
    bury(
        rowKey,
        rowKey.getMetricName(),
        rowKey.getTags(),
        rowKey.getDataType(),
        points,
        reason);
  }

  private void bury(
      RowKey rowKey,
      String metric,
      SortedMap<String, String> tags,
      String type,
      List<Point> points,
      String reason) {
    long now = nowMs.getAsLong();
    synchronized (dead) {
      for (Point point : points) {
        dead.add(new Dead(new Letter(metric, tags, type, point, now, reason), rowKey));
      }
      if (burying) {
        return;
      }
      burying = true;
    }
    // By the timer's thread, as the disk is waited for; and all that come meanwhile together.
    timer.after(0, this::buryAll);
  }

  private void buryAll() {
    List<Dead> some;
    synchronized (dead) {
      some = List.copyOf(dead.subList(0, Math.min(dead.size(), BURIED_AT_ONCE)));
      if (some.isEmpty()) {
        burying = false;
        return;
      }
    }
    try {
      deadLetters.add(some.stream().map(Dead::letter).toList());
    } catch (Throwable error) {
      failed++;
      trouble = "points that the store refuses cannot be written to the dead letters: " + error;
      logger.error("Dead letters could not be written; again later", error);
      timer.after(backoff.delayMs(failed), this::buryAll);
      return;
    }
    failed = 0;
    trouble = null;
    stats.deadLetters.add(some.size());
    synchronized (dead) {
      dead.subList(0, some.size()).clear();
    }
    for (Dead one : some) {
      settle(one.rowKey, List.of(one.letter.point()));
    }
    timer.after(0, this::buryAll);
  }

  /** What is wrong with the dead letters; null if nothing is. */
  String trouble() {
    return trouble;
  }
}
