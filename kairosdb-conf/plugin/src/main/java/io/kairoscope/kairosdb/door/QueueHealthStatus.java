package io.kairoscope.kairosdb.door;

import com.codahale.metrics.health.HealthCheck;
import io.kairoscope.kairosdb.queue.PointQueue;
import io.kairoscope.kairosdb.queue.QueueHealth;
import javax.inject.Inject;
import org.kairosdb.core.health.HealthStatus;
import org.kairosdb.core.queue.QueueProcessor;

/** The queue's troubles in KairosDB's health check, so that loaders and balancers go elsewhere. */
public final class QueueHealthStatus extends HealthCheck implements HealthStatus {
  private final PointQueue queue;

  @Inject
  public QueueHealthStatus(QueueProcessor queue) {
    this((PointQueue) queue);
  }

  QueueHealthStatus(PointQueue queue) {
    this.queue = queue;
  }

  @Override
  public String getName() {
    return "Coalescing-Queue";
  }

  @Override
  protected Result check() {
    QueueHealth health = queue.health();
    return health.healthy()
        ? Result.healthy()
        // Not as a format: it may have a percent sign.
        : Result.unhealthy("%s", String.join("; ", health.troubles()));
  }
}
