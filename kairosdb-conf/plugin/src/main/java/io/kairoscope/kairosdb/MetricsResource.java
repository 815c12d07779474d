package io.kairoscope.kairosdb;

import io.kairoscope.kairosdb.metrics.Exposition;
import io.kairoscope.kairosdb.metrics.JvmMetrics;
import io.kairoscope.kairosdb.metrics.MetricSource;
import io.kairoscope.kairosdb.queue.PointQueue;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import javax.inject.Inject;
import javax.ws.rs.GET;
import javax.ws.rs.Path;
import javax.ws.rs.Produces;
import org.kairosdb.core.queue.FileQueueProcessor;
import org.kairosdb.core.queue.QueueProcessor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All metrics of this KairosDB, its own and the plugin's, for any number of readers: since the
 * start or as of now, so that none takes anything from another. docs/metrics.md lists them.
 *
 * <p>KairosDB's own reporter must be off beside it, as it takes what is told here.
 */
// Jersey refuses two classes of one path, so it is the whole of it.
@Path("/api/v1/kairoscope/metrics")
public class MetricsResource {
  private static final Logger logger = LoggerFactory.getLogger(MetricsResource.class);

  private final Reporters reporters;
  private final List<MetricSource> sources = new ArrayList<>();
  private final LongAdder failures = new LongAdder();

  @Inject
  MetricsResource(Reporters reporters, QueueProcessor queue, StoreMetrics store) {
    this.reporters = reporters;
    sources.add(
        new KairosDbMetrics(reporters.kairosDbs(), !(queue instanceof PointQueue), failures));
    if (queue instanceof FileQueueProcessor stock) {
      sources.add(new StockQueue(stock));
    }
    sources.add(store::tell);
    sources.add(new JvmMetrics());
  }

  @GET
  @Produces("text/plain; version=0.0.4; charset=utf-8")
  public String metrics() {
    Exposition to = new Exposition();
    reporters.ours().forEach(source -> tell(source, to));
    sources.forEach(source -> tell(source, to));
    to.counter("kairosdb_metrics_failures_total", "Times that some of these metrics were not told.")
        .value(failures.sum());
    return to.toString();
  }

  private void tell(MetricSource source, Exposition to) {
    try {
      source.tell(to);
    } catch (RuntimeException | Error error) {
      // Most of it is better than nothing, to somebody who looks at what is wrong.
      failures.increment();
      logger.warn("{} cannot tell its metrics", source.getClass().getName(), error);
    }
  }
}
