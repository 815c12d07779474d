package io.kairoscope.kairosdb.door;

import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import javax.inject.Inject;
import org.kairosdb.core.datastore.KairosDatastore;
import org.kairosdb.core.health.DatastoreQueryHealthCheck;

/**
 * KairosDB's own check of the datastore, with an end: it answers within two seconds.
 *
 * <p>KairosDB's waits for as long as the driver does, which is 12 s and more with a storage node
 * that is frozen: longer than any balancer waits, so all KairosDBs of the cluster fail for one
 * storage node. A query that takes longer than two seconds is no failure while another one
 * succeeded in the last ten; and there is never more than one of them.
 */
public final class PatientDatastoreCheck extends DatastoreQueryHealthCheck {
  private static final long DEADLINE_MS = 2_000;
  private static final long GOOD_FOR_MS = 10_000;

  private final Callable<Result> query;
  private final LongSupplier clockMs;
  private FutureTask<Result> running;
  private boolean anyGood;
  private long goodAt;

  @Inject
  public PatientDatastoreCheck(KairosDatastore datastore) {
    super(datastore);
    query = super::check;
    clockMs = () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }

  PatientDatastoreCheck(
      KairosDatastore datastore, Callable<Result> query, LongSupplier clockMs) {
    super(datastore);
    this.query = query;
    this.clockMs = clockMs;
  }

  @Override
  protected Result check() throws Exception {
    try {
      Result result = begun().get(DEADLINE_MS, TimeUnit.MILLISECONDS);
      if (result.isHealthy()) {
        good();
      }
      return result;
    } catch (TimeoutException slow) {
      return isGood()
          ? Result.healthy()
          : Result.unhealthy("The datastore has not answered a query for %d ms", DEADLINE_MS);
    }
  }

  private synchronized void good() {
    anyGood = true;
    goodAt = clockMs.getAsLong();
  }

  private synchronized boolean isGood() {
    return anyGood && clockMs.getAsLong() - goodAt <= GOOD_FOR_MS;
  }

  /** The query that is under way, or another one. */
  private synchronized Future<Result> begun() {
    if (running == null || running.isDone()) {
      running = new FutureTask<>(query);
      Thread thread = new Thread(running, "health-check");
      thread.setDaemon(true);
      thread.start();
    }
    return running;
  }
}
