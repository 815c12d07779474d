package io.kairoscope.kairosdb;

import javax.inject.Inject;
import javax.ws.rs.GET;
import javax.ws.rs.Path;
import javax.ws.rs.Produces;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.reporting.KairosMetricReporter;

/**
 * All metrics of this KairosDB, its own and the plugin's, for a Prometheus to fetch.
 *
 * <p>Most of KairosDB's are of the time since they were last asked for, so there is one who asks:
 * one Prometheus, and not KairosDB's own reporter beside it.
 */
// Jersey refuses two classes of one path, so it is the whole of it.
@Path("/api/v1/kairoscope/metrics")
public class MetricsResource {
  private final Reporters reporters;

  @Inject
  MetricsResource(Reporters reporters) {
    this.reporters = reporters;
  }

  @GET
  @Produces("text/plain; version=0.0.4; charset=utf-8")
  public String metrics() {
    Prometheus text = new Prometheus();
    long now = System.currentTimeMillis();
    for (KairosMetricReporter reporter : reporters.all()) {
      for (DataPointSet set : reporter.getMetrics(now)) {
        text.add(set);
      }
    }
    return text.toString();
  }
}
