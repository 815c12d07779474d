package io.kairoscope.kairosdb.door;

import com.google.common.collect.ImmutableSetMultimap;
import com.google.common.collect.SetMultimap;
import io.kairoscope.kairosdb.queue.PointQueue;
import org.kairosdb.core.datastore.Datastore;
import org.kairosdb.core.datastore.DatastoreMetricQuery;
import org.kairosdb.core.datastore.QueryCallback;
import org.kairosdb.core.datastore.TagSet;
import org.kairosdb.core.exception.DatastoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * KairosDB's datastore, in which a query sees what waits in this node's queue, and a delete deletes
 * it: the points of its series are stored first.
 *
 * <p>Else a point could be queried half a minute after its 204, rollups would leave points out for
 * good, and a delete would walk the rows that the store knows, and not those that come a moment
 * later: the points that it should have deleted would appear after it.
 */
final class FreshDatastore implements Datastore {
  private static final Logger logger = LoggerFactory.getLogger(FreshDatastore.class);
  // What KairosDB's health check asks for, to see whether there is an answer.
  private static final String HEALTH_CHECK = "kairosdb.jvm.thread_count";

  private static final SetMultimap<String, String> ALL = ImmutableSetMultimap.of();

  private final Datastore store;
  private final PointQueue queue;
  private final Deletes deletes;
  private final DoorStats stats;
  private final long onQueryMs;
  private final long onDeleteMs;
  private final OncePerSecond staleLog = new OncePerSecond();

  FreshDatastore(
      Datastore store, PointQueue queue, Deletes deletes, DoorSettings settings, DoorStats stats) {
    this.store = store;
    this.queue = queue;
    this.deletes = deletes;
    this.stats = stats;
    onQueryMs = settings.flushOnQueryMs();
    onDeleteMs = settings.flushOnDeleteMs();
  }

  private void flushForQuery(DatastoreMetricQuery query) throws DatastoreException {
    String metric = query.getName();
    if (onQueryMs <= 0 || HEALTH_CHECK.equals(metric)) {
      return;
    }
    try {
      if (queue.flush(metric, tags(query), onQueryMs)) {
        return;
      }
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
      throw new DatastoreException("The query was interrupted");
    } catch (RuntimeException | Error error) {
      // A query that can be answered is not kept back by a queue that cannot.
      staleLog.run(before -> logger.error("What waits could not be stored for a query", error));
    }
    stats.staleQueries.increment();
    staleLog.run(
        before ->
            logger.warn(
                "What waits of {} was not stored within {} ms; the query goes without it"
                    + " ({} more times since the last such line)",
                metric,
                onQueryMs,
                before));
  }

  /** Which series it may ask for: a plugin of KairosDB's may look for others than the tags say. */
  private static SetMultimap<String, String> tags(DatastoreMetricQuery query) {
    return query.getPlugins().isEmpty() ? query.getTags() : ALL;
  }

  @Override
  public void queryDatabase(DatastoreMetricQuery query, QueryCallback callback)
      throws DatastoreException {
    flushForQuery(query);
    store.queryDatabase(query, callback);
  }

  @Override
  public TagSet queryMetricTags(DatastoreMetricQuery query) throws DatastoreException {
    flushForQuery(query);
    return store.queryMetricTags(query);
  }

  @Override
  public void indexMetricTags(DatastoreMetricQuery query) throws DatastoreException {
    flushForQuery(query);
    store.indexMetricTags(query);
  }

  @Override
  public void deleteDataPoints(DatastoreMetricQuery query) throws DatastoreException {
    long at = deletes.now();
    try {
      if (!queue.flush(query.getName(), ALL, onDeleteMs)) {
        stats.refusedDeletes.increment();
        throw new DatastoreException(
            "Nothing was deleted: points of "
                + query.getName()
                + " wait in the queue, and the store did not take them within "
                + onDeleteMs
                + " ms; try again when it does");
      }
      deletes.run(query, at, () -> store.deleteDataPoints(query));
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
      throw new DatastoreException("The delete was interrupted");
    }
  }

  @Override
  public void close() throws InterruptedException, DatastoreException {
    store.close();
  }

  @Override
  public Iterable<String> getMetricNames(String prefix) throws DatastoreException {
    return store.getMetricNames(prefix);
  }

  @Override
  public Iterable<String> getTagNames() throws DatastoreException {
    return store.getTagNames();
  }

  @Override
  public Iterable<String> getTagValues() throws DatastoreException {
    return store.getTagValues();
  }

  @Override
  public long getMinTimeValue() {
    return store.getMinTimeValue();
  }

  @Override
  public long getMaxTimeValue() {
    return store.getMaxTimeValue();
  }
}
