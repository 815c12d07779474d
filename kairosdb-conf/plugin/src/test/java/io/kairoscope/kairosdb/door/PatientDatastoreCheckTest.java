package io.kairoscope.kairosdb.door;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.health.HealthCheck.Result;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.kairosdb.core.datastore.KairosDatastore;
import org.kairosdb.core.datastore.QueryQueuingManager;
import org.kairosdb.core.exception.DatastoreException;

/** A store that does not answer: the check does, in time. */
@Timeout(60)
class PatientDatastoreCheckTest {
  private final AtomicInteger queries = new AtomicInteger();
  private volatile CountDownLatch frozen = new CountDownLatch(0);
  private volatile boolean fails;
  private volatile long nowMs;

  private PatientDatastoreCheck check() throws DatastoreException {
    KairosDatastore none =
        new KairosDatastore(new FakeDatastore(), new QueryQueuingManager(1, "h"), null, false);
    return new PatientDatastoreCheck(
        none,
        () -> {
          queries.incrementAndGet();
          frozen.await();
          return fails ? Result.unhealthy("no") : Result.healthy();
        },
        () -> nowMs);
  }

  @Test
  void aFrozenStorageNodeIsNoFailureAtOnceButLater() throws Exception {
    PatientDatastoreCheck check = check();
    assertTrue(check.execute().isHealthy());
    frozen = new CountDownLatch(1);
    long begin = System.nanoTime();
    assertTrue(check.execute().isHealthy());
    assertTrue(System.nanoTime() - begin < 3_000_000_000L);
    nowMs = 10_001;
    assertFalse(check.execute().isHealthy());
    // One query waits, however often it is asked.
    assertEquals(2, queries.get());
    frozen.countDown();
    Thread.sleep(100);
    assertTrue(check.execute().isHealthy());
  }

  @Test
  void aFailureIsOneAtOnce() throws Exception {
    PatientDatastoreCheck check = check();
    assertTrue(check.execute().isHealthy());
    fails = true;
    assertFalse(check.execute().isHealthy());
  }

  @Test
  void aStoreThatNeverAnsweredIsUnhealthy() throws Exception {
    frozen = new CountDownLatch(1);
    assertFalse(check().execute().isHealthy());
  }
}
