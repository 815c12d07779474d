package io.kairoscope.kairosdb.door;

import com.google.common.collect.HashMultimap;
import com.google.common.collect.SetMultimap;
import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import io.kairoscope.kairosdb.queue.PointQueue;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import javax.inject.Inject;
import org.kairosdb.core.KairosDBService;
import org.kairosdb.core.datastore.DatastoreMetricQuery;
import org.kairosdb.core.datastore.ServiceKeyStore;
import org.kairosdb.core.datastore.ServiceKeyValue;
import org.kairosdb.core.exception.DatastoreException;
import org.kairosdb.core.queue.QueueProcessor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Deletes of several KairosDBs on one store.
 *
 * <p>A delete also deletes the index of the rows, and the caches of the node that does it, but not
 * those of the others: they would go on writing points into rows that no query finds any more, for
 * up to three weeks (kairosdb#575). And what waits on another node would appear after the delete.
 *
 * <p>So a delete is announced in the store's table of service keys before it begins and after it is
 * done, and each node looks there once a second: when a delete begins it gives up what waits, when
 * it is done it writes the index again of what came since. A node that was away when it happened
 * reads the same when it is back, for as long as the entries stand there, and stores nothing of
 * before until then.
 *
 * <p>New entries are told by their keys and not by the table's time of modification: that is a cell
 * whose latest writer wins by his clock, so the change of a node with a slow clock is never seen.
 * Nor is an entry's age told by what its key begins with, when the delete was asked for by its
 * node's clock: a delete may take longer than entries are left, and clocks differ. Each node counts
 * from when it wrote an entry, or first did what it asks for; or saw it, if that cannot be done.
 */
public final class Deletes implements KairosDBService {
  /** A delete of KairosDB's own. */
  interface Deletion {
    void run() throws DatastoreException;
  }

  /** What the nodes tell each other; {@code doneAt} is 0 when it begins. Gson's. */
  private static final class Notice {
    String metric;
    long start;
    long end;
    Map<String, Collection<String>> tags;
    long at;
    long doneAt;
  }

  private static final Logger logger = LoggerFactory.getLogger(Deletes.class);
  private static final String SERVICE = "kairoscope";
  private static final String SERVICE_KEY = "deletes";
  private static final long POLL_MS = 1_000;
  private static final long KEPT_MS = 600_000;
  // For entries of nodes that never came back.
  private static final long LEFT_MS = 6 * KEPT_MS;
  // So long after it was first seen a delete is over, or its node is.
  private static final long OVER_MS = 60_000;
  private static final String BEGUN = ":begun";
  private static final String DONE = ":done";

  private final PointQueue queue;
  private final ServiceKeyStore store;
  private final boolean several;
  private final LongSupplier clockMs;
  private final long waitMs;
  private final String node = UUID.randomUUID().toString();
  private final AtomicLong number = new AtomicLong();
  // This node's entries, and when they were written.
  private final Map<String, Long> written = new ConcurrentHashMap<>();
  // The poller's alone: others' entries, when this node saw them first, and when it did what they
  // ask for.
  private final Map<String, Long> seen = new HashMap<>();
  private final Map<String, Long> handled = new HashMap<>();
  // Ends of deletes that are still to come by this node's clock. Where their node's is far ahead,
  // that takes the entry away before.
  private final Map<String, Notice> early = new HashMap<>();
  private final Set<String> lateDone = new HashSet<>();
  private final OncePerSecond log = new OncePerSecond();
  private volatile Thread poller;

  @Inject
  public Deletes(QueueProcessor queue, ServiceKeyStore store) {
    this(
        (PointQueue) queue,
        store,
        ((PointQueue) queue).hasOthers(),
        System::currentTimeMillis,
        2 * POLL_MS);
  }

  Deletes(
      PointQueue queue,
      ServiceKeyStore store,
      boolean several,
      LongSupplier clockMs,
      long waitMs) {
    this.queue = queue;
    this.store = store;
    this.several = several;
    this.clockMs = clockMs;
    this.waitMs = waitMs;
  }

  long now() {
    return clockMs.getAsLong();
  }

  /**
   * Runs a delete, so that it covers what waits elsewhere, and hides nothing that comes after it.
   *
   * @param at when it was asked for: what was taken up to then is to go
   */
  void run(DatastoreMetricQuery query, long at, Deletion deletion)
      throws DatastoreException, InterruptedException {
    Notice notice = new Notice();
    notice.metric = query.getName();
    notice.start = query.getStartTime();
    notice.end = query.getEndTime();
    notice.tags = query.getTags().asMap();
    notice.at = at;
    String key = String.format("%015d-%s-%d", at, node, number.incrementAndGet());
    if (several) {
      announce(key + BEGUN, notice);
      Thread.sleep(waitMs);
    }
    Runnable reindex = queue.deleting(notice.metric, at);
    try {
      deletion.run();
    } finally {
      // Also if it failed half way: what is indexed twice does no harm. The index is written at a
      // later millisecond than it was deleted: of equal times a delete wins.
      notice.doneAt = now();
      try {
        while (now() <= notice.doneAt + 1) {
          Thread.sleep(1);
        }
      } finally {
        reindex.run();
      }
      if (several) {
        announce(key + DONE, notice);
      }
    }
  }

  private void announce(String key, Notice notice) throws DatastoreException {
    // Before it is there: the poller may find it at once.
    written.put(key, now());
    store.setValue(SERVICE, SERVICE_KEY, key, new Gson().toJson(notice));
  }

  @Override
  public void start() {
    if (!several) {
      return;
    }
    Thread thread = new Thread(this::poll, "kairoscope-deletes");
    thread.setDaemon(true);
    poller = thread;
    thread.start();
  }

  @Override
  public void stop() {
    Thread thread = poller;
    poller = null;
    if (thread != null) {
      thread.interrupt();
    }
  }

  private void poll() {
    while (Thread.currentThread() == poller) {
      try {
        look();
        queue.deletesAreKnown();
        Thread.sleep(POLL_MS);
      } catch (Throwable error) {
        // Whatever it is: without this thread other nodes' deletes hide our points.
        log.run(before -> logger.warn("Other nodes' deletes are not known: {}", error.toString()));
        pause();
      }
    }
  }

  private static void pause() {
    try {
      Thread.sleep(POLL_MS);
    } catch (InterruptedException stop) {
      // the loop asks whether it is to go on
    }
  }

  /** Does what the entries ask for that it has not done; what fails, and what is early, later. */
  void look() throws DatastoreException, InterruptedException {
    Set<String> all = new HashSet<>();
    store.listKeys(SERVICE, SERVICE_KEY).forEach(all::add);
    Set<String> known = new HashSet<>(all);
    known.addAll(early.keySet());
    Exception failure = null;
    for (String key : known) {
      try {
        look(key, all);
      } catch (JsonParseException stranger) {
        logger.error("Not an entry of a delete: {}", key, stranger);
        handled.put(key, now());
        lateDone.add(key);
      } catch (DatastoreException error) {
        failure = error; // the others may do
      } catch (RuntimeException error) {
        // Not the store's, and perhaps the same each time: then no start would know of all deletes.
        failure = error;
        removeIfOld(key);
      }
    }
    seen.keySet().retainAll(known);
    handled.keySet().retainAll(known);
    lateDone.retainAll(all);
    if (failure != null) {
      throw new DatastoreException(failure);
    }
  }

  private void look(String key, Set<String> all) throws DatastoreException, InterruptedException {
    if (key.contains(node)) {
      if (since(written.get(key)) > KEPT_MS) {
        store.deleteKey(SERVICE, SERVICE_KEY, key);
        written.remove(key);
      }
      return;
    }
    seen.putIfAbsent(key, now());
    if (!handled.containsKey(key) && handle(key)) {
      handled.put(key, now());
    }
    long age = since(handled.get(key));
    // Its node died in the middle: what it deleted of the index is hidden all the same.
    if (key.endsWith(BEGUN)
        && !all.contains(key.substring(0, key.length() - BEGUN.length()) + DONE)
        && !lateDone.contains(key)
        && age > OVER_MS) {
      indexAgain(notice(key));
      lateDone.add(key);
    }
    if (age > LEFT_MS) {
      store.deleteKey(SERVICE, SERVICE_KEY, key);
    }
  }

  /** 0 if it has not been yet. */
  private long since(Long ms) {
    return ms == null ? 0 : now() - ms;
  }

  /** By when it was first seen, as it may never be done. */
  private void removeIfOld(String key) throws DatastoreException {
    if (since(seen.get(key)) > LEFT_MS) {
      early.remove(key);
      store.deleteKey(SERVICE, SERVICE_KEY, key);
    }
  }

  /** Null if it was removed meanwhile. */
  private Notice notice(String key) throws DatastoreException {
    ServiceKeyValue value;
    try {
      value = store.getValue(SERVICE, SERVICE_KEY, key);
    } catch (RuntimeException driver) {
      throw new DatastoreException(driver);
    }
    if (value == null || value.getValue() == null) {
      return null;
    }
    Notice notice = new Gson().fromJson(value.getValue(), Notice.class);
    if (notice == null || notice.metric == null) {
      throw new JsonParseException("no metric in '" + value.getValue() + "'");
    }
    return notice;
  }

  private boolean handle(String key) throws DatastoreException, InterruptedException {
    Notice notice = early.containsKey(key) ? early.get(key) : notice(key);
    if (notice == null) {
      removeIfOld(key);
      return false;
    }
    if (notice.doneAt == 0) {
      queue.forget(notice.metric, notice.start, notice.end, tags(notice), notice.at);
      return true;
    }
    // By this node's clock, as that dates what it writes: behind the delete's.
    if (now() <= notice.doneAt + 1) {
      early.put(key, notice);
      return false;
    }
    indexAgain(notice);
    early.remove(key);
    return true;
  }

  private void indexAgain(Notice notice) {
    if (notice != null) {
      queue.reindex(notice.metric, notice.at);
    }
  }

  private static SetMultimap<String, String> tags(Notice notice) {
    SetMultimap<String, String> tags = HashMultimap.create();
    Map<String, Collection<String>> all = notice.tags == null ? new HashMap<>() : notice.tags;
    all.forEach(tags::putAll);
    return tags;
  }
}
