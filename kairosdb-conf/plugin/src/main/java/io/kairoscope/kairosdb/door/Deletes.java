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
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import javax.inject.Inject;
import org.kairosdb.core.KairosDBService;
import org.kairosdb.core.datastore.DatastoreMetricQuery;
import org.kairosdb.core.datastore.ServiceKeyStore;
import org.kairosdb.core.datastore.ServiceKeyValue;
import org.kairosdb.core.exception.DatastoreException;
import org.kairosdb.core.queue.QueueProcessor;
import org.kairosdb.datastore.cassandra.DataCache;
import org.kairosdb.datastore.cassandra.DataPointsRowKey;
import org.kairosdb.datastore.cassandra.TimedString;
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
 * done, and each node looks there once a second: when a delete begins it gives up what waits, when it
 * is done it writes the index again of what came since. A node that was away when it happened reads
 * the same when it is back, for as long as the entries stand there.
 *
 * <p>New entries are told by their keys and not by the table's time of modification: that is a cell
 * whose latest writer wins by his clock, so the change of a node with a slow clock is never seen.
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

  private final PointQueue queue;
  private final ServiceKeyStore store;
  private final DataCache<DataPointsRowKey> rowKeys;
  private final DataCache<TimedString> metricNames;
  private final boolean several;
  private final LongSupplier clockMs;
  private final long waitMs;
  private final String node = UUID.randomUUID().toString();
  private final AtomicLong number = new AtomicLong();
  private final Set<String> handled = new HashSet<>();
  private final OncePerSecond log = new OncePerSecond();
  private volatile Thread poller;

  @Inject
  public Deletes(
      QueueProcessor queue,
      ServiceKeyStore store,
      DataCache<DataPointsRowKey> rowKeys,
      DataCache<TimedString> metricNames,
      DoorSettings settings) {
    this(
        (PointQueue) queue,
        store,
        rowKeys,
        metricNames,
        settings.nodes() > 1,
        System::currentTimeMillis,
        2 * POLL_MS);
  }

  Deletes(
      PointQueue queue,
      ServiceKeyStore store,
      DataCache<DataPointsRowKey> rowKeys,
      DataCache<TimedString> metricNames,
      boolean several,
      LongSupplier clockMs,
      long waitMs) {
    this.queue = queue;
    this.store = store;
    this.rowKeys = rowKeys;
    this.metricNames = metricNames;
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
      store.setValue(SERVICE, SERVICE_KEY, key + ":begun", new Gson().toJson(notice));
      Thread.sleep(waitMs);
    }
    try {
      deletion.run();
    } finally {
      // Also if it failed half way: what is indexed twice does no harm.
      // The index is written at a later millisecond than it was deleted: of equal times a delete wins.
      notice.doneAt = now();
      while (now() <= notice.doneAt + 1) {
        Thread.sleep(1);
      }
      queue.reindex(notice.metric, at);
      if (several) {
        store.setValue(SERVICE, SERVICE_KEY, key + ":done", new Gson().toJson(notice));
      }
    }
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
        Thread.sleep(POLL_MS);
      } catch (Throwable error) {
        // Whatever it is: without this thread other nodes' deletes hide our points.
        log.run(
            before -> logger.warn("Deletes of other nodes could not be read: {}", error.toString()));
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
    Set<String> there = new HashSet<>();
    Exception failure = null;
    for (String key : store.listKeys(SERVICE, SERVICE_KEY)) {
      there.add(key);
      try {
        if (isOld(key)) {
          store.deleteKey(SERVICE, SERVICE_KEY, key);
        } else if (!key.contains(node) && !handled.contains(key) && handle(key)) {
          handled.add(key);
        }
      } catch (JsonParseException stranger) {
        logger.error("Not an entry of a delete: {}", key, stranger);
        handled.add(key);
      } catch (DatastoreException | RuntimeException error) {
        failure = error; // the others may do
      }
    }
    handled.retainAll(there);
    if (failure != null) {
      throw new DatastoreException(failure);
    }
  }

  private boolean isOld(String key) {
    try {
      long age = now() - Long.parseLong(key.substring(0, key.indexOf('-')));
      return age > LEFT_MS || age > KEPT_MS && key.contains(node);
    } catch (NumberFormatException | IndexOutOfBoundsException stranger) {
      return false;
    }
  }

  private boolean handle(String key) throws DatastoreException, InterruptedException {
    ServiceKeyValue value = store.getValue(SERVICE, SERVICE_KEY, key);
    if (value == null || value.getValue() == null) {
      return false;
    }
    Notice notice = new Gson().fromJson(value.getValue(), Notice.class);
    if (notice.doneAt == 0) {
      queue.forget(notice.metric, notice.start, notice.end, tags(notice), notice.at);
      return true;
    }
    // By this node's clock, as that dates what it writes: behind the delete's.
    if (now() <= notice.doneAt + 1) {
      return false;
    }
    for (DataPointsRowKey row : rowKeys.getCachedKeys()) {
      if (row.getMetricName().equals(notice.metric)) {
        rowKeys.removeKey(row);
      }
    }
    for (TimedString name : metricNames.getCachedKeys()) {
      if (name.getString().equals(notice.metric)) {
        metricNames.removeKey(name);
      }
    }
    queue.reindex(notice.metric, notice.at);
    return true;
  }

  private static SetMultimap<String, String> tags(Notice notice) {
    SetMultimap<String, String> tags = HashMultimap.create();
    Map<String, Collection<String>> all = notice.tags == null ? new HashMap<>() : notice.tags;
    all.forEach(tags::putAll);
    return tags;
  }
}
