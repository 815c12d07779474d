package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kairoscope.kairosdb.queue.TestConfig;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.kairosdb.core.datastore.QueryMetric;
import org.kairosdb.core.datastore.ServiceKeyValue;
import org.kairosdb.core.exception.DatastoreException;

/** Queries and deletes over a queue that has points; and deletes as another KairosDB sees them. */
class FreshDatastoreTest {
  private final FakeQueue queue = new FakeQueue();
  private final FakeDatastore store = new FakeDatastore();
  private final FakeKeyStore keys = new FakeKeyStore();
  private final DoorStats stats = new DoorStats();
  private long now = 1_000_000;
  private final QueryMetric query = new QueryMetric(5, 9, 0, "m");
  private FreshDatastore datastore;

  @BeforeEach
  void make() throws Exception {
    datastore = datastore(Map.of(), deletes(false));
  }

  private FreshDatastore datastore(Map<String, ?> settings, Deletes deletes) throws Exception {
    return new FreshDatastore(
        store, queue, deletes, new DoorSettings(TestConfig.of(settings)), stats);
  }

  private Deletes deletes(boolean several) {
    return new Deletes(queue, keys, several, () -> now++, 1);
  }

  @Test
  void aQueryFindsWhatWaits() throws Exception {
    datastore.queryDatabase(query, null);
    datastore.queryMetricTags(query);
    assertEquals(List.of("flush m 2000", "flush m 2000"), queue.calls);
    assertEquals(List.of("query m", "tags m"), store.calls);
    assertEquals(0, stats.staleQueries.sum());
  }

  @Test
  void aQueryOfSomeSeriesLeavesTheOthersWaiting() throws Exception {
    query.setTags(Map.of("a", "b"));
    datastore.queryDatabase(query, null);
    datastore.queryMetricTags(query);
    datastore.indexMetricTags(query);
    assertEquals(List.of("flush m{a=[b]} 2000"), List.copyOf(Set.copyOf(queue.calls)));
    assertEquals(3, queue.calls.size());
  }

  @Test
  void aQueryWithAPluginMayBeOfAnySeries() throws Exception {
    query.setTags(Map.of("a", "b"));
    query.addPlugin(() -> "of series it knows");
    datastore.queryDatabase(query, null);
    assertEquals(List.of("flush m 2000"), queue.calls);
  }

  @Test
  void aDeleteOfSomeSeriesStoresAllThatWaits() throws Exception {
    query.setTags(Map.of("a", "b"));
    datastore.deleteDataPoints(query);
    assertEquals("flush m 30000", queue.calls.get(0));
  }

  @Test
  void aQueryIsAnsweredAlsoIfTheStoreTakesNothing() throws Exception {
    queue.flushes = false;
    datastore.queryDatabase(query, null);
    assertEquals(List.of("query m"), store.calls);
    assertEquals(1, stats.staleQueries.sum());
  }

  @Test
  void theHealthChecksQueryWaitsForNothing() throws Exception {
    datastore.queryDatabase(new QueryMetric(5, 9, 0, "kairosdb.jvm.thread_count"), null);
    assertEquals(List.of(), queue.calls);
  }

  @Test
  void itCanBeTurnedOff() throws Exception {
    datastore(Map.of(DoorSettings.PREFIX + "flush_on_query_ms", 0), deletes(false))
        .queryDatabase(query, null);
    assertEquals(List.of(), queue.calls);
  }

  @Test
  void aDeleteCoversWhatWaits() throws Exception {
    datastore.deleteDataPoints(query);
    assertEquals(List.of("delete m"), store.calls);
    // What came while it ran has its index again.
    assertEquals(List.of("flush m 30000", "reindex m 1000000"), queue.calls);
    assertTrue(keys.values.isEmpty());
  }

  @Test
  void aDeleteThatCannotCoverWhatWaitsDoesNothing() {
    queue.flushes = false;
    DatastoreException error =
        assertThrows(DatastoreException.class, () -> datastore.deleteDataPoints(query));
    assertTrue(error.getMessage().contains("Nothing was deleted"), error.getMessage());
    assertEquals(List.of(), store.calls);
    assertEquals(1, stats.refusedDeletes.sum());
  }

  @Test
  void aDeleteThatOthersCannotBeToldOfDoesNothing() throws Exception {
    keys.fails = true;
    FreshDatastore several = datastore(Map.of(), deletes(true));
    assertThrows(DatastoreException.class, () -> several.deleteDataPoints(query));
    assertEquals(List.of(), store.calls);
  }

  @Test
  void anotherNodeGivesUpWhatWaitsAndIndexesWhatComes() throws Exception {
    FakeQueue othersQueue = new FakeQueue();
    long[] othersClock = {1_000_000};
    Deletes other = new Deletes(othersQueue, keys, true, () -> othersClock[0], 1);
    query.setTags(Map.of("a", "b"));
    Deletes ours = deletes(true);
    ours.run(
        query,
        1_000_000,
        () -> {
          try {
            other.look();
            other.look();
          } catch (InterruptedException error) {
            throw new IllegalStateException(error);
          }
          assertEquals(List.of("forget m 5 9 {a=[b]} 1000000"), othersQueue.calls);
        });
    // Its clock is behind: an index written now would be of before the delete, and hidden by it.
    other.look();
    assertEquals(1, othersQueue.calls.size());
    othersClock[0] += 1_000;
    other.look();
    other.look();
    assertEquals(2, othersQueue.calls.size());
    assertEquals("reindex m 1000000", othersQueue.calls.get(1));
    // Ours leaves them for ten minutes.
    ours.look();
    assertEquals(2, keys.values.size());
    assertEquals(List.of("reindex m 1000000"), queue.calls);
    now += 601_000;
    ours.look();
    assertEquals(0, keys.values.size());
    other.look();
    assertEquals(2, othersQueue.calls.size());
  }

  @Test
  void aNodeThatDiesInADeleteHidesNothing() throws Exception {
    FakeQueue othersQueue = new FakeQueue();
    Deletes other = new Deletes(othersQueue, keys, true, () -> now, 1);
    deletes(true).run(query, 1_000_000, () -> {});
    keys.values.keySet().removeIf(key -> key.endsWith(":done"));
    other.look();
    now += 61_000;
    other.look();
    other.look();
    assertEquals(List.of("forget m 5 9 {} 1000000", "reindex m 1000000"), othersQueue.calls);
  }

  @Test
  void whatFailsIsTriedAgain() throws Exception {
    FakeQueue othersQueue = new FakeQueue();
    Deletes other = new Deletes(othersQueue, keys, true, () -> now, 1);
    deletes(true).run(query, 1_000_000, () -> {});
    keys.fails = true;
    assertThrows(DatastoreException.class, other::look);
    keys.fails = false;
    keys.values.put("0", "{");
    now += 1_000;
    other.look();
    assertEquals(2, othersQueue.calls.size());
  }

  /** Somebody may write there by hand. It must not stay for ever, nor have each start wait. */
  @Test
  void whatIsNoDeleteIsTakenAwayInTheEnd() throws Exception {
    FakeKeyStore strange =
        new FakeKeyStore() {
          @Override
          public ServiceKeyValue getValue(String service, String serviceKey, String key)
              throws DatastoreException {
            ServiceKeyValue value = super.getValue(service, serviceKey, key);
            return key.equals("null") ? new ServiceKeyValue(null, new Date()) : value;
          }
        };
    strange.values.put("1:begun", "{\"start\": 5}");
    strange.values.put("2:done", "{\"doneAt\": 5}");
    strange.values.put("3:begun", "");
    strange.values.put("null", "");
    FakeQueue othersQueue = new FakeQueue();
    Deletes other = new Deletes(othersQueue, strange, true, () -> now, 1);
    for (int minute = 0; minute <= 60; minute++) {
      other.look();
      assertEquals(4, strange.values.size());
      now += 60_000;
    }
    now += 1;
    other.look();
    assertEquals(Set.of(), strange.values.keySet());
    assertEquals(List.of(), othersQueue.calls);
  }

  @Test
  void whatFailsEachTimeIsTakenAwayInTheEnd() throws Exception {
    boolean[] wrong = {true};
    FakeQueue othersQueue =
        new FakeQueue() {
          @Override
          public void reindex(String metric, long sinceMs) {
            if (wrong[0]) {
              throw new IllegalStateException("of this one");
            }
            super.reindex(metric, sinceMs);
          }
        };
    Deletes other = new Deletes(othersQueue, keys, true, () -> now, 1);
    deletes(true).run(query, 1_000_000, () -> {});
    now += 1_000;
    String begun = keys.values.firstKey();
    String value = keys.values.get(begun);
    assertThrows(DatastoreException.class, other::look);
    now += 3_600_000;
    assertThrows(DatastoreException.class, other::look);
    assertEquals(2, keys.values.size());
    // Nor does it matter what fails of a delete whose node is gone.
    keys.values.put("0:begun", value);
    now += 1;
    assertThrows(DatastoreException.class, other::look);
    assertEquals(Set.of("0:begun"), keys.values.keySet());
    now += 3_600_001;
    assertThrows(DatastoreException.class, other::look);
    assertEquals(Set.of(), keys.values.keySet());
    wrong[0] = false;
    other.look();
  }

  @Test
  void theThreadOutlivesErrors() throws Exception {
    FakeQueue othersQueue = new FakeQueue();
    Deletes other = new Deletes(othersQueue, keys, true, System::currentTimeMillis, 1);
    keys.fails = true;
    other.start();
    Thread.sleep(200);
    assertFalse(othersQueue.knowsDeletes);
    keys.fails = false;
    new Deletes(queue, keys, true, System::currentTimeMillis, 1)
        .run(query, System.currentTimeMillis(), () -> {});
    long end = System.nanoTime() + 10_000_000_000L;
    while ((othersQueue.calls.size() < 2 || !othersQueue.knowsDeletes)
        && System.nanoTime() < end) {
      Thread.sleep(20);
    }
    other.stop();
    assertEquals(2, othersQueue.calls.size());
    assertTrue(othersQueue.knowsDeletes);
  }

  @Test
  void aDeleteThatFailsStillHasTheIndexWrittenAgain() {
    store.fails = true;
    assertThrows(DatastoreException.class, () -> datastore.deleteDataPoints(query));
    assertEquals("reindex m 1000000", queue.calls.get(1));
  }
}
