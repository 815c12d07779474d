package io.kairoscope.kairosdb.door;

import io.kairoscope.kairosdb.queue.NotTakenError;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.kairosdb.core.DataPoint;
import org.kairosdb.core.datastore.Datastore;
import org.kairosdb.core.datastore.DatastoreMetricQuery;
import org.kairosdb.core.datastore.QueryCallback;
import org.kairosdb.core.datastore.TagSet;
import org.kairosdb.core.datastore.TagSetImpl;
import org.kairosdb.core.exception.DatastoreException;

/** Notes what it is asked for. */
class FakeDatastore implements Datastore {
  final List<String> calls = Collections.synchronizedList(new ArrayList<>());
  volatile boolean fails;

  /** What it answers to a query, as one series. */
  volatile List<DataPoint> points = List.of();

  /** Questions for names are answered then. */
  volatile CountDownLatch hold = new CountDownLatch(0);

  private void call(String what) throws DatastoreException {
    calls.add(what);
    if (fails) {
      throw new DatastoreException("the store is away");
    }
  }

  @Override
  public void close() {
    calls.add("close");
  }

  @Override
  public Iterable<String> getMetricNames(String prefix) throws DatastoreException {
    call("names");
    try {
      hold.await();
    } catch (InterruptedException stop) {
      throw new DatastoreException(stop);
    }
    return List.of();
  }

  @Override
  public Iterable<String> getTagNames() {
    return List.of();
  }

  @Override
  public Iterable<String> getTagValues() {
    return List.of();
  }

  @Override
  public void queryDatabase(DatastoreMetricQuery query, QueryCallback callback)
      throws DatastoreException {
    call("query " + query.getName());
    if (points.isEmpty()) {
      return;
    }
    try (QueryCallback.DataPointWriter writer =
        callback.startDataPointSet(
            points.get(0).getDataStoreDataType(), new TreeMap<>(Map.of("a", "b")))) {
      for (DataPoint point : points) {
        writer.addDataPoint(point);
      }
    } catch (IOException error) {
      throw new DatastoreException(error);
    }
  }

  @Override
  public void deleteDataPoints(DatastoreMetricQuery query) throws DatastoreException {
    call("delete " + query.getName());
  }

  @Override
  public TagSet queryMetricTags(DatastoreMetricQuery query) throws DatastoreException {
    call("tags " + query.getName());
    return new TagSetImpl();
  }

  @Override
  public void indexMetricTags(DatastoreMetricQuery query) {
    if (query.getName().equals("not-taken")) {
      throw new NotTakenError("the disk is full", null);
    }
  }

  @Override
  public long getMinTimeValue() {
    return Long.MIN_VALUE;
  }

  @Override
  public long getMaxTimeValue() {
    return Long.MAX_VALUE;
  }
}
