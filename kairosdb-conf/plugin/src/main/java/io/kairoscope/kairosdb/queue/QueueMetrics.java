package io.kairoscope.kairosdb.queue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.kairosdb.core.DataPointSet;
import org.kairosdb.core.datapoints.LongDataPointFactoryImpl;
import org.kairosdb.core.datapoints.DoubleDataPointFactoryImpl;
import org.kairosdb.util.SimpleStats;
import org.kairosdb.util.SimpleStatsReporter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The queue's metrics in KairosDB's own form, as {@code kairosdb.kairoscope.queue.*}.
 *
 * <p>Counts are since the start. Statistics (min, max, avg, count, sum) are since they were last
 * asked for, as KairosDB's own are.
 */
final class QueueMetrics {
  private static final Logger logger = LoggerFactory.getLogger(QueueMetrics.class);
  private static final String PREFIX = "kairosdb.kairoscope.queue.";

  private final CoalescingQueue queue;
  private final QueueStats stats;
  private final String hostName;
  private final LongDataPointFactoryImpl longs = new LongDataPointFactoryImpl();
  private final SimpleStatsReporter reporter;

  QueueMetrics(CoalescingQueue queue, QueueStats stats, String hostName) {
    this.queue = queue;
    this.stats = stats;
    this.hostName = hostName;
    reporter = new SimpleStatsReporter(hostName, longs, new DoubleDataPointFactoryImpl());
  }

  List<DataPointSet> get(long now) {
    List<DataPointSet> sets = new ArrayList<>();
    CoalescingQueue.Depth depth = queue.depth();
    add(sets, now, "waiting_points", depth.waiting());
    add(sets, now, "memory_points", depth.points());
    add(sets, now, "memory_bytes", depth.bytes());
    add(sets, now, "file_only_points", depth.fileOnly());
    add(sets, now, "since_checkpoint_points", depth.sinceCheckpoint());
    oldest(sets, now);
    add(sets, now, "put", stats.put.sum());
    add(sets, now, "stored", stats.stored.sum());
    add(sets, now, "read_back", stats.readBack.sum());
    add(sets, now, "refused", stats.refused.sum());
    add(sets, now, "unreadable", stats.unreadable.sum());
    add(sets, now, "retries", stats.retries.sum());
    add(sets, now, "index_failures", stats.indexFailures.sum());
    add(sets, now, "delivery_failures", stats.deliveryFailures.sum());
    add(sets, now, "rewritten", stats.rewritten.sum());
    add(sets, now, "forgotten", stats.forgotten.sum());
    add(sets, now, "splits", stats.splits.sum());
    add(sets, now, "batch_points", stats.batchPoints);
    add(sets, now, "batch_bytes", stats.batchBytes);
    add(sets, now, "partition_points", stats.partitionPoints);
    add(sets, now, "stored_after_ms", stats.storedAfterMs);
    add(sets, now, "expired", stats.expired.sum());
    add(sets, now, "dead_letters", stats.deadLetters.sum());
    add(sets, now, "errors", stats.errors.sum());
    add(sets, now, "silences", stats.silences.sum());
    add(sets, now, "hedged", stats.hedged.sum());
    add(sets, now, "reindexed", stats.reindexed.sum());
    return sets;
  }

  private void oldest(List<DataPointSet> sets, long now) {
    try {
      Long takenAt = queue.oldestTakenAt();
      add(sets, now, "oldest_ms", takenAt == null ? 0 : Math.max(0, now - takenAt));
    } catch (IOException error) {
      logger.debug("The age of the oldest point could not be read", error);
    }
  }

  private void add(List<DataPointSet> sets, long now, String name, long value) {
    DataPointSet set = new DataPointSet(PREFIX + name);
    set.addTag("host", hostName);
    set.addDataPoint(longs.createDataPoint(now, value));
    sets.add(set);
  }

  private void add(List<DataPointSet> sets, long now, String name, SimpleStats values) {
    reporter.reportStats(values.getAndClear(), now, PREFIX + name, sets);
  }
}
