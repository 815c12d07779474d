package io.kairoscope.kairosdb.door;

import java.io.Closeable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Cuts the connections of those who begin a request and then keep us waiting for its body: each has
 * one of the web server's threads, of which there are 200, so that many senders who fall silent, or
 * send a byte now and then, would be the end of the service for all others.
 *
 * <p>Who is cut: whose body does not come on for so long, or is not there after so long; and of one
 * address, beyond a quarter of the threads, the oldest of those that are slow at all. A body that
 * is there when it is read, as nearly all are, is not known here.
 */
final class SlowBodies {
  static final long STALLED_MS = 10_000;
  static final long WHOLE_MS = 60_000;
  static final long SLOW_MS = 1_000;
  static final int SLOW_OF_ONE = 50;
  private static final long LOOK_MS = 500;
  private static final Logger logger = LoggerFactory.getLogger(SlowBodies.class);

  private final LongSupplier nowMs;
  private final Set<Body> bodies = ConcurrentHashMap.newKeySet();
  private final OncePerSecond log = new OncePerSecond();
  private final LongAdder cut;

  /** A body that was waited for. */
  final class Body implements Closeable {
    private final Supplier<String> sender;
    private final Runnable connection;
    private final long sinceMs = nowMs.getAsLong();
    private String address;
    private volatile long waitingSinceMs = -1;

    private Body(Supplier<String> sender, Runnable connection) {
      this.sender = sender;
      this.connection = connection;
    }

    /** Its next bytes are not there. */
    void waits() {
      waitingSinceMs = nowMs.getAsLong();
      if (address == null) {
        address = sender.get();
        bodies.add(this);
      }
    }

    /** They are. */
    void came() {
      waitingSinceMs = -1;
    }

    @Override
    public void close() {
      if (address != null) {
        bodies.remove(this);
      }
    }
  }

  /**
   * @param cut counts those that are cut
   */
  SlowBodies(LongSupplier nowMs, LongAdder cut) {
    this.nowMs = nowMs;
    this.cut = cut;
  }

  static SlowBodies watched(LongAdder cut) {
    SlowBodies slow =
        new SlowBodies(() -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime()), cut);
    Thread thread = new Thread(slow::watch, "door-slow-bodies");
    thread.setDaemon(true);
    thread.start();
    return slow;
  }

  /**
   * A request begins.
   *
   * @param sender its address
   * @param connection closes it: what reads from it then meets an error
   */
  Body begin(Supplier<String> sender, Runnable connection) {
    return new Body(sender, connection);
  }

  /** Looks again and again, until the thread is interrupted. */
  void watch() {
    while (true) {
      try {
        Thread.sleep(LOOK_MS);
        look();
      } catch (InterruptedException stop) {
        Thread.currentThread().interrupt();
        return;
      } catch (Throwable error) {
        // Whatever it is with one connection, the others must be cut; it is not looked at again.
        logger.error("A request whose body is too slow could not be cut", error);
      }
    }
  }

  /** Cuts those that are to be cut now. */
  void look() {
    long now = nowMs.getAsLong();
    Map<String, List<Body>> slow = new HashMap<>();
    for (Body body : bodies) {
      long since = body.waitingSinceMs;
      if (since < 0) {
        continue;
      }
      if (now - since >= STALLED_MS || now - body.sinceMs >= WHOLE_MS) {
        cut(body);
      } else if (now - body.sinceMs >= SLOW_MS) {
        slow.computeIfAbsent(body.address, address -> new ArrayList<>()).add(body);
      }
    }
    for (List<Body> of : slow.values()) {
      of.sort(Comparator.comparingLong(body -> body.sinceMs));
      of.subList(0, Math.max(0, of.size() - SLOW_OF_ONE)).forEach(this::cut);
    }
  }

  private void cut(Body body) {
    cut.increment();
    log.run(
        before ->
            logger.warn(
                "The body of a request from {} is too slow in coming; its connection is cut"
                    + " ({} more since the last such message)",
                body.address,
                before));
    bodies.remove(body);
    body.connection.run();
  }
}
