package io.kairoscope.kairosdb.door;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import javax.inject.Inject;
import javax.inject.Named;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.reporting.KairosMetricReporter;

/** What came through the doors, since the start, as {@code kairosdb.kairoscope.door.*}. */
public final class DoorStats implements KairosMetricReporter {
  private static final String PREFIX = DoorSettings.PREFIX;

  /** Requests with points over REST, whatever became of them, and their points that were taken. */
  final LongAdder requests = new LongAdder();
  final LongAdder points = new LongAdder();

  /** Points over REST that were the sender's mistake, and requests that had any. */
  final LongAdder refused = new LongAdder();
  final LongAdder badRequests = new LongAdder();

  /** Requests that could not be taken now, that were too large, or that failed. */
  final LongAdder unavailable = new LongAdder();
  final LongAdder tooLarge = new LongAdder();
  final LongAdder errors = new LongAdder();

  /** Points over telnet that were taken, and lines that were not. */
  final LongAdder telnetPoints = new LongAdder();
  final LongAdder telnetErrors = new LongAdder();

  /** Queries that were answered without all that waited of their metric. */
  final LongAdder staleQueries = new LongAdder();

  /** Deletes that were refused, as what waited could not be stored first. */
  final LongAdder refusedDeletes = new LongAdder();

  private final String hostName;
  private final LongDataPointFactoryImpl longs = new LongDataPointFactoryImpl();

  @Inject
  public DoorStats(@Named("HOSTNAME") String hostName) {
    this.hostName = hostName;
  }

  @Override
  public List<DataPointSet> getMetrics(long now) {
    List<DataPointSet> sets = new ArrayList<>();
    add(sets, now, "requests", requests);
    add(sets, now, "points", points);
    add(sets, now, "refused", refused);
    add(sets, now, "bad_requests", badRequests);
    add(sets, now, "unavailable", unavailable);
    add(sets, now, "too_large", tooLarge);
    add(sets, now, "errors", errors);
    add(sets, now, "telnet_points", telnetPoints);
    add(sets, now, "telnet_errors", telnetErrors);
    add(sets, now, "stale_queries", staleQueries);
    add(sets, now, "refused_deletes", refusedDeletes);
    return sets;
  }

  private void add(List<DataPointSet> sets, long now, String name, LongAdder count) {
    DataPointSet set = new DataPointSet(PREFIX + name);
    set.addTag("host", hostName);
    set.addDataPoint(longs.createDataPoint(now, count.sum()));
    sets.add(set);
  }
}
